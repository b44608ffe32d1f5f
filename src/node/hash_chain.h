// HashChain: the chained hashes of one sequence's full blocks, as its tokens come. Keeps the
// tokens of the unfinished last block only.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/block.h"

namespace lineshaft::node {

class HashChain {
 public:
  // After `tokens`, whose full blocks have the hashes `hashes` (hash_blocks of the same root).
  HashChain(const BlockHash& root, std::span<const BlockHash> hashes,
            std::span<const TokenId> tokens, int32_t block_tokens)
      : parent_(hashes.empty() ? root : hashes.back()),
        block_tokens_(static_cast<size_t>(block_tokens)) {
    const auto tail = tokens.subspan(hashes.size() * block_tokens_);
    tail_.reserve(block_tokens_);
    tail_.assign(tail.begin(), tail.end());
  }

  // The hash of the block that this token fills, if it fills one.
  std::optional<BlockHash> append(TokenId token) {
    tail_.push_back(token);
    if (tail_.size() < block_tokens_) return std::nullopt;
    parent_ = chain_next(parent_, tail_);
    tail_.clear();
    return parent_;
  }

 private:
  BlockHash parent_;
  std::vector<TokenId> tail_;
  size_t block_tokens_;
};

}  // namespace lineshaft::node
