// BlockLedger: which state each block of the KV arena is in. Every block is in exactly one of
// free, held (count > 0) and cached (count 0, named, evictable); the sum is the pool.
//
// Knows ids and counts only: no bytes, no tokens, no sequences; what a name means is the
// prefix index's business.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/block.h"
#include "core/ids.h"

namespace lineshaft::policy {

class BlockLedger {
 public:
  // A block that became held, and the name that was lost for it when it had been cached.
  struct Taken {
    BlockId block;
    std::optional<BlockHash> evicted;
  };

  // All `blocks` (>= 0) start free.
  explicit BlockLedger(int32_t blocks);

  // A block for one new holder, nameless: a free one, else the least recently used cached one;
  // nullopt when all are held.
  std::optional<Taken> take();

  // One more holder of a held or cached block.
  void hold(BlockId block);

  // One holder less. At zero a named block becomes cached (most recently used), another free.
  void release(BlockId block);

  // Names a held, nameless block: its content is complete and will not change.
  void name(BlockId block, const BlockHash& hash);

  // Makes a cached block the most recently used one; nothing for a held block.
  void touch(BlockId block);

  int32_t holders(BlockId block) const { return at(block).holders; }
  bool is_cached(BlockId block) const { return at(block).cached; }
  const std::optional<BlockHash>& name_of(BlockId block) const { return at(block).name; }

  int32_t total() const { return static_cast<int32_t>(entries_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached() const { return cached_; }
  int32_t held() const { return held_; }
  // Blocks that take() could hand out.
  int32_t available() const { return free() + cached(); }

  // CHECKs the sum; O(1), called after each event.
  void check() const;
  // CHECKs every block against the lists; O(blocks), for tests and simulation.
  void audit() const;

 private:
  struct Entry {
    int32_t holders = 0;
    bool cached = false;
    int32_t before = -1;              // neighbours in the list of cached blocks; -1: none
    int32_t after = -1;
    std::optional<BlockHash> name;
  };
  const Entry& at(BlockId block) const;
  Entry& at(BlockId block);
  void enter_cached(BlockId block, Entry& entry);
  void leave_cached(Entry& entry);
  int32_t& after(int32_t block) {
    return block < 0 ? oldest_ : entries_[static_cast<size_t>(block)].after;
  }
  int32_t& before(int32_t block) {
    return block < 0 ? newest_ : entries_[static_cast<size_t>(block)].before;
  }

  std::vector<Entry> entries_;
  std::vector<BlockId> free_;           // a stack
  int32_t oldest_ = -1;                 // the cached blocks as a list by last use
  int32_t newest_ = -1;
  int32_t cached_ = 0;
  int32_t held_ = 0;
};

}  // namespace lineshaft::policy
