// At stake: a streamed answer must be the whole answer, and no reader may see half a character.
#include "recipe/detokenizer.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "base/utf8.h"

namespace lineshaft::recipe {
namespace {

std::shared_ptr<const Vocab> vocab_of(std::vector<std::string> bytes, TokenId control = -1) {
  Vocab vocab;
  vocab.bytes = std::move(bytes);
  vocab.kinds.assign(vocab.bytes.size(), TokenKind::kNormal);
  if (control >= 0) vocab.kinds[control] = TokenKind::kControl;
  return std::make_shared<const Vocab>(std::move(vocab));
}

std::vector<std::string> deltas(Detokenizer& detokenizer, const std::vector<TokenId>& ids) {
  std::vector<std::string> out;
  for (const TokenId id : ids) out.emplace_back(detokenizer.push(id));
  out.emplace_back(detokenizer.finish());
  return out;
}

// P001, P002: an emoji in two tokens, a family of emoji joined by ZWJ byte by byte.
TEST(Detokenizer, a_character_in_several_tokens_comes_whole) {
  Detokenizer halves(vocab_of({"\xf0\x9f", "\x98\x80"}));
  EXPECT_EQ(deltas(halves, {0, 1}), (std::vector<std::string>{"", "😀", ""}));

  const std::string text = "👨‍👩‍👧 T\u0301 你好";
  std::vector<std::string> bytes;
  std::vector<TokenId> ids;
  for (const char c : text) {
    ids.push_back(static_cast<TokenId>(bytes.size()));
    bytes.emplace_back(1, c);
  }
  Detokenizer detokenizer(vocab_of(std::move(bytes)));
  std::string joined;
  for (const std::string& delta : deltas(detokenizer, ids)) {
    EXPECT_EQ(delta.find("\ufffd"), std::string::npos);
    joined += delta;
  }
  EXPECT_EQ(joined, text);
}

TEST(Detokenizer, a_cut_character_at_the_end_is_one_replacement_mark) {
  Detokenizer detokenizer(vocab_of({"ok\xf0\x9f\x98"}));
  EXPECT_EQ(deltas(detokenizer, {0}), (std::vector<std::string>{"ok", "\ufffd"}));
  EXPECT_EQ(detokenizer.finish(), "");
}

// WHATWG: one mark for each maximal subpart.
TEST(Detokenizer, bytes_that_are_not_utf8_become_replacement_marks) {
  Detokenizer detokenizer(vocab_of({"\xff", "\xe2\x82", "a", "\xc0\x80", "\xed\xa0\x80"}));
  EXPECT_EQ(deltas(detokenizer, {0, 1, 2, 3, 4}),
            (std::vector<std::string>{"\ufffd", "", "\ufffda", "\ufffd\ufffd",
                                      "\ufffd\ufffd\ufffd", ""}));
}

TEST(Detokenizer, hides_control_tokens_when_told_and_ignores_foreign_ids) {
  const auto vocab = vocab_of({"a", "<|end|>", "b"}, 1);
  Detokenizer shown(vocab);
  EXPECT_EQ(deltas(shown, {0, 1, 2}), (std::vector<std::string>{"a", "<|end|>", "b", ""}));
  Detokenizer hidden(vocab, Detokenizer::ControlTokens::kHide);
  EXPECT_EQ(deltas(hidden, {0, 1, 2, -1, 3}),
            (std::vector<std::string>{"a", "", "b", "", "", ""}));
}

TEST(Detokenizer, deltas_join_to_the_whole_text_for_any_tokens) {
  std::vector<std::string> bytes = {"é", "日本", "\xe6\x97", "\xa5", "\xf0\x9f\x98", "x"};
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  const auto vocab = vocab_of(std::move(bytes));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const RngKey key = RngKey(3).split(seed);
    Detokenizer detokenizer(vocab);
    std::string raw;
    std::string joined;
    for (uint64_t i = 0; i < 24; ++i) {
      // Lead and continuation bytes often enough that long subparts are met.
      const uint64_t n = key.below(2 * i, 3);
      const auto id = static_cast<TokenId>(n == 0   ? key.below(2 * i + 1, 262)
                                           : n == 1 ? key.below(2 * i + 1, 6)
                                                    : 6 + 0x80 + key.below(2 * i + 1, 128));
      raw += vocab->bytes[id];
      const std::string_view delta = detokenizer.push(id);
      ASSERT_EQ(valid_utf8_prefix(delta), delta.size());
      joined += delta;
      // What is out is never taken back, and at most one character is held.
      ASSERT_TRUE(repair_utf8(raw).starts_with(joined));
      ASSERT_LE(repair_utf8(raw).size(), joined.size() + 3);
    }
    joined += detokenizer.finish();
    ASSERT_EQ(joined, repair_utf8(raw));
  }
}

}  // namespace
}  // namespace lineshaft::recipe
