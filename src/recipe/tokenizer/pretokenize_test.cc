// At stake: a piece cut elsewhere gives other ids. Each scanner against PCRE2 running the regular
// expression it stands for, on random texts.
#include "recipe/tokenizer/pretokenize.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/rng.h"
#include "base/status.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

// Matches and the gaps between them, in order ("Isolated").
std::vector<std::string> isolate(const std::string& regex, const std::string& text) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  EXPECT_NE(code, nullptr) << regex;
  pcre2_match_data* match = pcre2_match_data_create_from_pattern(code, nullptr);
  std::vector<std::string> out;
  size_t from = 0;
  while (from < text.size()) {
    const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  from, 0, match, nullptr);
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
    const size_t begin = count > 0 ? span[0] : text.size();
    if (begin > from) out.push_back(text.substr(from, begin - from));
    if (count <= 0) break;
    out.push_back(text.substr(begin, span[1] - begin));
    from = span[1];
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return out;
}

std::vector<std::string> isolate_all(const std::vector<std::string>& regexes, std::string text) {
  std::vector<std::string> pieces = {std::move(text)};
  for (const std::string& regex : regexes) {
    std::vector<std::string> next;
    for (const std::string& piece : pieces) {
      for (std::string& part : isolate(regex, piece)) next.push_back(std::move(part));
    }
    pieces = std::move(next);
  }
  return pieces;
}

std::vector<std::string> split(const PreTokenizer& pre, const std::string& text) {
  std::vector<size_t> ends;
  pre.split(text, ends);
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (const size_t end : ends) {
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return pieces;
}

// Characters of every class, with those that the expressions name.
std::string random_text(RngKey key) {
  static const char* const kParts[] = {
      " ", " ", "  ", "\n", "\r", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "'", "'s", "'S", "'t",
      "'re", "'VE", "'ll", "'d", "'m", "'\u017f", "a", "B", "z", "é", "ß", "Ж", "א", "日", "龥",
      "龦", "あ", "ア", "・", "゠", "ー", "가", "ก", "1", "2", "3", "٣", "²", "Ⅷ", "½", "〇", ".",
      ",", "!", "-", "_", "+", "$", "€", "«", "。", "、", "😀", "\u0301", "\u093f", "\u200d",
      "\ufe0f", "\u200b", "\x01", "\x7f", "^", "`", "~", "\\", "]", "/", "\u0378",
  };
  std::string text;
  const uint64_t count = key.below(0, 14);
  for (uint64_t i = 1; i <= count; ++i) text += kParts[key.below(i, std::size(kParts))];
  return text;
}

const std::string kSpaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string kModernHead =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
const std::string kModernTail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|)" + kSpaces;
const std::string kQwen2 = kModernHead + R"(\p{N})" + kModernTail;
const std::string kLlama3 = kModernHead + R"(\p{N}{1,3})" + kModernTail;
const std::string kDeepseek =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|)" + kSpaces;

struct Case {
  const char* name;
  std::vector<std::string> regexes;
};

class Scanners : public testing::TestWithParam<Case> {};

TEST_P(Scanners, cut_where_the_regular_expression_does) {
  const auto pre = PreTokenizer::from_gguf_name(GetParam().name);
  ASSERT_TRUE(pre.ok()) << pre.status();
  const RngKey key(7);
  for (uint64_t i = 0; i < 1500; ++i) {
    const std::string text = random_text(key.split(i));
    ASSERT_EQ(split(*pre, text), isolate_all(GetParam().regexes, text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    all, Scanners,
    testing::Values(Case{"gpt-2", {kGpt2}}, Case{"smollm", {R"(\p{N})", kGpt2}},
                    Case{"qwen2", {kQwen2}}, Case{"llama-bpe", {kLlama3}},
                    Case{"deepseek-v3", {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepseek}}));

TEST(PreTokenizer, bytes_that_are_not_utf8_end_up_in_pieces_like_any_other) {
  const RngKey key(8);
  for (const char* name : {"gpt-2", "smollm", "qwen2", "llama-bpe", "deepseek-v3"}) {
    const auto pre = PreTokenizer::from_gguf_name(name);
    for (uint64_t i = 0; i < 300; ++i) {
      std::string text;
      for (uint64_t j = 0; j < 20; ++j) {
        text.push_back(static_cast<char>(key.split(i).below(j, 256)));
      }
      std::string joined;
      for (const std::string& piece : split(*pre, text)) {
        EXPECT_FALSE(piece.empty());
        joined += piece;
      }
      ASSERT_EQ(joined, text);
    }
  }
}

TEST(PreTokenizer, refuses_what_it_does_not_know_by_its_name) {
  const auto pre = PreTokenizer::from_gguf_name("falcon-9000");
  EXPECT_EQ(pre.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(message_of(pre.status()).find("falcon-9000"), std::string_view::npos);
  const Status regex = PreTokenizer().add_regex("[a-z]+");
  EXPECT_EQ(regex.code(), StatusCode::kUnimplemented);
  EXPECT_NE(message_of(regex).find("[a-z]+"), std::string_view::npos);
}

}  // namespace
}  // namespace lineshaft::recipe
