// At stake: a stream must equal the whole reply byte for byte, never show half a code point or the
// beginning of a stop string, and keep every log-probability beside its token. Field reports P001,
// P002, P009, P011, P012, P076, P081, P083.
#include "recipe/answer_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "base/utf8.h"
#include "recipe/test_tokenizer.h"

namespace lineshaft::recipe {
namespace {

struct Result {
  std::string text;
  std::vector<std::string> deltas;
  std::vector<AnswerToken> tokens;
  bool stopped = false;
};

TokenEvent event_of(TokenId token, int32_t position) {
  TokenEvent event;
  event.token = token;
  event.position = position;
  event.logprob = -static_cast<float>(position);
  return event;
}

Result run(const std::vector<TokenId>& tokens, const std::vector<std::string>& stops) {
  const auto stream = make_content_stream(test_tokenizer()->vocab(), stops, true);
  Result result;
  const auto take = [&](AnswerDelta delta) {
    const std::string text = delta.events.empty() ? "" : delta.events[0].text;
    EXPECT_EQ(valid_utf8_prefix(text), text.size());
    result.text += text;
    result.deltas.push_back(text);
    for (auto& token : delta.tokens) result.tokens.push_back(std::move(token));
    result.stopped |= delta.ended;
  };
  for (size_t i = 0; i < tokens.size() && !result.stopped; ++i) {
    take(stream->push(event_of(tokens[i], static_cast<int32_t>(i))));
  }
  take(stream->finish());
  return result;
}

std::vector<TokenId> bytes_as_tokens(const std::string& text) {
  std::vector<TokenId> out;
  for (const char c : text) out.push_back(static_cast<uint8_t>(c));
  return out;
}

TEST(AnswerStream, emits_whole_code_points_only) {
  const std::string text = "a\U0001F469\u200d\U0001F469\u200d\U0001F467 T\u0301 \u201cq\u201d";
  const auto result = run(bytes_as_tokens(text), {});
  EXPECT_EQ(result.text, text);
  EXPECT_EQ(result.tokens.size(), text.size());
}

TEST(AnswerStream, a_cut_code_point_shows_once_at_the_end) {
  const auto result = run(bytes_as_tokens("a\xf0\x9f"), {});
  EXPECT_EQ(result.text, "a\ufffd");
  EXPECT_EQ(result.tokens.size(), 3u);
}

TEST(AnswerStream, holds_back_what_may_be_a_stop_string_and_no_more) {
  const auto hit = run(bytes_as_tokens("ABCDEFGHIJK"), {"DEFGHIJ"});
  EXPECT_EQ(hit.text, "ABC");
  EXPECT_TRUE(hit.stopped);
  EXPECT_EQ(hit.tokens.size(), 3u);
  const auto miss = run(bytes_as_tokens("hello z"), {"zzzz"});
  EXPECT_EQ(miss.deltas[0], "h");
  EXPECT_EQ(miss.text, "hello z");
  const auto natural = run(bytes_as_tokens("pleas"), {"as you like"});
  EXPECT_EQ(natural.text, "pleas");
  EXPECT_FALSE(natural.stopped);
  EXPECT_EQ(natural.tokens.size(), 5u);
}

TEST(AnswerStream, control_tokens_are_no_text_but_keep_their_entry) {
  const auto result = run({'a', kTestImStart, 'b'}, {});
  EXPECT_EQ(result.text, "ab");
  ASSERT_EQ(result.tokens.size(), 3u);
  EXPECT_EQ(result.tokens[1].token, kTestImStart);
}

TEST(AnswerStream, entries_are_in_order_with_their_offsets) {
  const auto result = run(bytes_as_tokens("\u00e9x\u20acy"), {});
  ASSERT_EQ(result.tokens.size(), 7u);
  const std::vector<size_t> offsets = {0, 0, 1, 2, 2, 2, 3};
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(result.tokens[i].text_offset, offsets[i]);
    EXPECT_EQ(result.tokens[i].logprob, -static_cast<float>(i));
  }
}

TEST(AnswerStream, random_answers_equal_their_one_shot_form) {
  RngKey key(3);
  for (uint64_t trial = 0; trial < 300; ++trial) {
    const RngKey draw = key.split(trial);
    std::vector<TokenId> tokens;
    for (uint64_t i = 0; i < 40; ++i) {
      tokens.push_back(static_cast<TokenId>(draw.below(i, 3) == 0 ? draw.below(i + 99, 256)
                                                                  : 'a' + draw.below(i + 99, 3)));
    }
    const std::string stop = draw.below(1000, 2) ? "abca" : "cc";
    std::string raw;
    for (const TokenId token : tokens) raw.push_back(static_cast<char>(token));
    const std::string whole = repair_utf8(raw);
    const size_t at = whole.find(stop);
    const auto result = run(tokens, {stop});
    EXPECT_EQ(result.text, whole.substr(0, at));
    EXPECT_EQ(result.stopped, at != std::string::npos);
  }
}

}  // namespace
}  // namespace lineshaft::recipe
