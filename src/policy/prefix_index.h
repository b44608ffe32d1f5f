// PrefixIndex: which block holds the content that a chained hash names, so that a chain of hashes
// gives the longest known prefix. Owns no blocks and keeps none alive. insert and erase allocate
// nothing: a block becomes full in the midst of decoding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/block.h"
#include "core/ids.h"

namespace lineshaft::policy {

class PrefixIndex {
 public:
  // At most `blocks` names at once.
  explicit PrefixIndex(int32_t blocks);

  // False when the name is known already; the block that has it stays.
  bool insert(const BlockHash& hash, BlockId block);
  // The name must be known.
  void erase(const BlockHash& hash);
  std::optional<BlockId> find(const BlockHash& hash) const;

  // The blocks of the longest prefix of `chain` that is known without a gap.
  std::vector<BlockId> match(std::span<const BlockHash> chain) const;

  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }

 private:
  using Map = std::map<BlockHash, BlockId>;
  Map blocks_;
  std::vector<Map::node_type> spare_;  // nodes of names that are not there
};

}  // namespace lineshaft::policy
