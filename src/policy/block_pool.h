// BlockPool: the ledger and the prefix index kept in agreement: a name is in the index exactly
// while its block is cached, or held and sealed. Decides nothing about sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/block_ledger.h"
#include "policy/prefix_index.h"

namespace lineshaft::policy {

class BlockPool {
 public:
  explicit BlockPool(int32_t blocks) : ledger_(blocks), index_(blocks) {}

  // A block for one new holder, evicting a cached one if need be; nullopt when all are held.
  std::optional<BlockId> take();

  // The longest known prefix of `chain`; the caller becomes a holder of each block returned.
  std::vector<BlockId> share(std::span<const BlockHash> chain);

  // What a share() would find, as { blocks, blocks of these that are cached now }.
  struct Match {
    int32_t blocks = 0;
    int32_t cached = 0;
  };
  Match match(std::span<const BlockHash> chain) const;

  // Makes the known prefix of `chain` the last to be evicted, its beginning last of all.
  void touch(std::span<const BlockHash> chain);

  // Seals a held block under its hash. Where another block has that content already, that one
  // keeps the name and this one stays nameless.
  void publish(BlockId block, const BlockHash& hash);

  // The caller, holder of each, gives them back; ends of chains become evictable first.
  void release(std::span<const BlockId> blocks);

  bool knows(const BlockHash& hash) const { return index_.find(hash).has_value(); }
  const BlockLedger& ledger() const { return ledger_; }

  // CHECKs ledger and index against each other: O(blocks), for tests and simulation.
  void audit() const;

 private:
  BlockLedger ledger_;
  PrefixIndex index_;
};

}  // namespace lineshaft::policy
