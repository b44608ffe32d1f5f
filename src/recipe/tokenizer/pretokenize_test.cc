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

// DeepSeek LLM 7B's list of cased letters, as in its tokenizer.json.
const std::string kCasedLetters =
    R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"
    R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-)"
    R"(\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-)"
    R"(\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})";
const std::string kDeepseekLlmCjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

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
                    Case{"deepseek-v3", {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepseek}},
                    Case{"deepseek-llm",
                         {R"([\r\n])", R"(\s?[)" + kCasedLetters + "]+",
                          R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)", kDeepseekLlmCjk,
                          R"(\p{N})"}},
                    Case{"deepseek-coder",
                         {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekLlmCjk,
                          R"(\p{N})"}}));

TEST(PreTokenizer, bytes_that_are_not_utf8_end_up_in_pieces_like_any_other) {
  const RngKey key(8);
  for (const char* name : {"gpt-2", "smollm", "qwen2", "llama-bpe", "deepseek-v3", "deepseek-llm",
                           "deepseek-coder"}) {
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
