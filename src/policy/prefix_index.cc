#include "policy/prefix_index.h"

#include <utility>

#include "base/check.h"

namespace lineshaft::policy {

PrefixIndex::PrefixIndex(int32_t blocks) {
  spare_.reserve(static_cast<size_t>(blocks));
  for (int32_t i = 0; i < blocks; ++i) {
    blocks_.emplace();
    spare_.push_back(blocks_.extract(blocks_.begin()));
  }
}

bool PrefixIndex::insert(const BlockHash& hash, BlockId block) {
  const auto after = blocks_.lower_bound(hash);
  if (after != blocks_.end() && after->first == hash) return false;
  LS_CHECK(!spare_.empty());
  Map::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = hash;
  node.mapped() = block;
  blocks_.insert(after, std::move(node));
  return true;
}

void PrefixIndex::erase(const BlockHash& hash) {
  Map::node_type node = blocks_.extract(hash);
  LS_CHECK(!node.empty(), "block hash {} is not in the index", hash.hex());
  spare_.push_back(std::move(node));
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
