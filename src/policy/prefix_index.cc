#include "policy/prefix_index.h"

#include "base/check.h"

namespace lineshaft::policy {

bool PrefixIndex::insert(const BlockHash& hash, BlockId block) {
  return blocks_.emplace(hash, block).second;
}

void PrefixIndex::erase(const BlockHash& hash) {
  LS_CHECK(blocks_.erase(hash) == 1, "block hash {} is not in the index", hash.hex());
}

std::optional<BlockId> PrefixIndex::find(const BlockHash& hash) const {
  const auto it = blocks_.find(hash);
  if (it == blocks_.end()) return std::nullopt;
  return it->second;
}

std::vector<BlockId> PrefixIndex::match(std::span<const BlockHash> chain) const {
  std::vector<BlockId> out;
  for (const BlockHash& hash : chain) {
    const auto block = find(hash);
    if (!block) break;
    out.push_back(*block);
  }
  return out;
}

}  // namespace lineshaft::policy
