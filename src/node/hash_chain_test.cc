// What is at stake: a block of an answer must get the name that the same tokens have in a prompt,
// or the next turn of a dialogue computes everything again; and never another block's name.
#include "node/hash_chain.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lineshaft::node {
namespace {

TEST(HashChain, GivesWhatHashBlocksGivesOnTheWhole) {
  const RngKey key(1);
  std::vector<TokenId> tokens;
  for (uint64_t i = 0; i < 50; ++i) tokens.push_back(static_cast<TokenId>(key.below(i, 1000)));
  const BlockHash root = chain_root({}, "profile", "f16", {});
  for (const int32_t block_tokens : {1, 4, 16}) {
    const auto whole = hash_blocks(root, tokens, block_tokens);
    for (size_t prompt = 1; prompt <= tokens.size(); ++prompt) {
      const auto known = std::span(tokens).first(prompt);
      auto hashes = hash_blocks(root, known, block_tokens);
      HashChain chain(root, hashes, known, block_tokens);
      for (size_t i = prompt; i < tokens.size(); ++i) {
        if (const auto hash = chain.append(tokens[i])) hashes.push_back(*hash);
      }
      ASSERT_EQ(hashes, whole) << prompt << " tokens, blocks of " << block_tokens;
    }
  }
}

}  // namespace
}  // namespace lineshaft::node
