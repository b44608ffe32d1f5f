#include "policy/block_pool.h"

#include "base/check.h"

namespace lineshaft::policy {

std::optional<BlockId> BlockPool::take() {
  const auto taken = ledger_.take();
  if (!taken) return std::nullopt;
  if (taken->evicted) index_.erase(*taken->evicted);
  return taken->block;
}

std::vector<BlockId> BlockPool::share(std::span<const BlockHash> chain) {
  std::vector<BlockId> blocks = index_.match(chain);
  for (const BlockId block : blocks) ledger_.hold(block);
  return blocks;
}

BlockPool::Match BlockPool::match(std::span<const BlockHash> chain) const {
  Match out;
  for (const BlockHash& hash : chain) {
    const auto block = index_.find(hash);
    if (!block) break;
    ++out.blocks;
    if (ledger_.is_cached(*block)) ++out.cached;
  }
  return out;
}

void BlockPool::touch(std::span<const BlockHash> chain) {
  for (int32_t i = match(chain).blocks - 1; i >= 0; --i) {
    ledger_.touch(*index_.find(chain[static_cast<size_t>(i)]));
  }
}

void BlockPool::publish(BlockId block, const BlockHash& hash) {
  if (index_.insert(hash, block)) ledger_.name(block, hash);
}

void BlockPool::release(std::span<const BlockId> blocks) {
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) ledger_.release(*it);
}

void BlockPool::audit() const {
  ledger_.audit();
  int32_t named = 0;
  for (int32_t i = 0; i < ledger_.total(); ++i) {
    const auto& name = ledger_.name_of(BlockId{i});
    if (!name) continue;
    ++named;
    LS_CHECK(index_.find(*name) == BlockId{i}, "block {} is not indexed", i);
  }
  LS_CHECK(named == index_.size(), "{} named blocks, {} index entries", named, index_.size());
}

}  // namespace lineshaft::policy
