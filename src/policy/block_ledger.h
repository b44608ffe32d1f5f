// BlockLedger: which state each block of the KV arena is in. Every block is in exactly one of
// free, held (count > 0) and cached (count 0, named, evictable); the sum is the pool.
//
// Knows ids and counts only: no bytes, no tokens, no sequences; what a name means is the
// prefix index's business.
#pragma once

#include <cstdint>
#include <map>
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
  bool is_cached(BlockId block) const { return at(block).stamp != 0; }
  const std::optional<BlockHash>& name_of(BlockId block) const { return at(block).name; }

  int32_t total() const { return static_cast<int32_t>(entries_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached() const { return static_cast<int32_t>(cached_.size()); }
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
    uint64_t stamp = 0;               // key in cached_ while cached, else 0
    std::optional<BlockHash> name;
  };
  const Entry& at(BlockId block) const;
  Entry& at(BlockId block);
  void enter_cached(BlockId block, Entry& entry);

  std::vector<Entry> entries_;
  std::vector<BlockId> free_;           // a stack
  std::map<uint64_t, BlockId> cached_;  // by last use: the first goes first
  int32_t held_ = 0;
  uint64_t stamp_ = 0;
};

}  // namespace lineshaft::policy
