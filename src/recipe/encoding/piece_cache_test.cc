// At stake: a cached piece must be the tokens of its text, and memory must stay bounded.
#include "recipe/encoding/piece_cache.h"

#include <gtest/gtest.h>

#include "recipe/test_tokenizer.h"

namespace lineshaft::recipe {
namespace {

std::vector<Piece> prompt_of(int turns) {
  PieceList out;
  for (int i = 0; i < turns; ++i) {
    out.control("<|im_start|>");
    const char letter = static_cast<char>('a' + i % 26);
    out.plain("user\n" + std::string(100 + static_cast<size_t>(i), letter));
    out.control("<|im_end|>");
    out.plain("\n");
  }
  return std::move(out).take();
}

TEST(PieceCache, gives_what_encode_pieces_gives_again_and_again) {
  const auto tokenizer = test_tokenizer();
  PieceCache cache(tokenizer);
  for (const int turns : {3, 10, 3, 11}) {
    EXPECT_EQ(*cache.encode(prompt_of(turns)), *encode_pieces(prompt_of(turns), *tokenizer));
  }
  EXPECT_GT(cache.bytes(), 1000u);
}

TEST(PieceCache, memory_is_bounded_and_the_result_the_same) {
  const auto tokenizer = test_tokenizer();
  for (const size_t bytes_max : {0, 1000, 4000}) {
    PieceCache cache(tokenizer, bytes_max);
    for (int turns = 1; turns < 100; ++turns) {
      ASSERT_EQ(*cache.encode(prompt_of(turns)), *encode_pieces(prompt_of(turns), *tokenizer));
      ASSERT_LE(cache.bytes(), bytes_max);
    }
  }
}

TEST(PieceCache, names_a_control_token_that_is_not_there) {
  PieceCache cache(test_tokenizer());
  EXPECT_FALSE(cache.encode({{true, "<|none|>"}}).ok());
}

}  // namespace
}  // namespace lineshaft::recipe
