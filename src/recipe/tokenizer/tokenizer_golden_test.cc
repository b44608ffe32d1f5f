// At stake: another id than the model's makers give means another prompt than the model learned.
// Golden ids of 479 texts for six released tokenizers (tests/golden/tokenizer/README.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "base/json.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "recipe/detokenizer.h"
#include "recipe/tokenizer/tokenizer.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
    if (folder == nullptr) {
      GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set (tests/golden/tokenizer/fetch)";
    }
    static std::map<std::string, std::shared_ptr<const Tokenizer>> loaded;
    tokenizer_ = loaded[GetParam()];
    if (tokenizer_ == nullptr) {
      auto tokenizer =
          tokenizer_from_json_file(std::string(folder) + "/" + GetParam() + ".json");
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
      tokenizer_ = loaded[GetParam()] = *tokenizer;
    }
    std::ifstream file(std::string("tests/golden/tokenizer/") + GetParam() + ".jsonl");
    for (std::string line; std::getline(file, line);) lines_.push_back(*parse_json(line));
    ASSERT_EQ(lines_.size(), 479u);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Json> lines_;
};

using Ids = std::vector<TokenId>;

TEST_P(TokenizerGolden, gives_the_ids_of_the_reference_in_both_modes) {
  for (const Json& line : lines_) {
    const auto text = line["text"].get<std::string>();
    const auto ids = line["ids"].get<Ids>();
    const auto plain = line.contains("ids_plain") ? line["ids_plain"].get<Ids>() : ids;
    EXPECT_EQ(tokenizer_->encode(text, Tokenizer::Mode::kSpecial), ids) << line["id"];
    EXPECT_EQ(tokenizer_->encode(text, Tokenizer::Mode::kPlain), plain) << line["id"];
  }
}

TEST_P(TokenizerGolden, decodes_to_the_text_of_the_reference_at_once_and_by_token) {
  for (const Json& line : lines_) {
    const auto ids = line["ids"].get<Ids>();
    const auto decoded = line[line.contains("decoded") ? "decoded" : "text"].get<std::string>();
    EXPECT_EQ(tokenizer_->decode(ids), decoded) << line["id"];
    Detokenizer detokenizer(tokenizer_->vocab());
    std::string joined;
    for (const TokenId id : ids) joined += detokenizer.push(id);
    joined += detokenizer.finish();
    EXPECT_EQ(joined, decoded) << line["id"];
  }
}

TEST_P(TokenizerGolden, plain_mode_gives_no_control_token_for_any_control_token_s_name) {
  const Vocab& vocab = *tokenizer_->vocab();
  int names = 0;
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.kinds[id] != TokenKind::kControl) continue;
    ++names;
    for (const std::string& text : {vocab.bytes[id], "a" + vocab.bytes[id] + vocab.bytes[id]}) {
      for (const TokenId got : tokenizer_->encode(text, Tokenizer::Mode::kPlain)) {
        ASSERT_NE(vocab.kinds[got], TokenKind::kControl) << text;
      }
    }
    EXPECT_EQ(tokenizer_->encode(vocab.bytes[id], Tokenizer::Mode::kSpecial), Ids{id});
    EXPECT_EQ(tokenizer_->added_token(vocab.bytes[id]), id);
  }
  EXPECT_GT(names, 8);
}

// A converter's view of the same tokenizer: what tokenizer.ggml.* of a GGUF file would hold.
TokenizerData as_gguf(const Json& json, const std::string& pre) {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = pre;
  const auto set = [&](const std::string& token, size_t id, int32_t type) {
    if (data.tokens.size() <= id) {
      data.tokens.resize(id + 1);
      data.token_types.resize(id + 1, 5);
    }
    data.tokens[id] = token;
    data.token_types[id] = type;
  };
  for (const auto& [token, id] : json["model"]["vocab"].items()) set(token, id, 1);
  for (const Json& token : json["added_tokens"]) {
    set(token["content"], token["id"], token["special"].get<bool>() ? 3 : 4);
  }
  for (const Json& merge : json["model"]["merges"]) {
    data.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                            : merge[0].get<std::string>() + " " +
                                                  merge[1].get<std::string>());
  }
  return data;
}

TEST_P(TokenizerGolden, the_same_vocabulary_in_a_gguf_file_gives_the_same_ids) {
  const std::string name = GetParam();
  if (name == "gemma3") GTEST_SKIP() << "its GGUF form has scores: tokenizer_gguf_test";
  const std::string pre = name == "qwen3"    ? "qwen2"
                          : name == "llama3" ? "llama-bpe"
                                             : "deepseek-v3";
  std::ifstream file(std::string(std::getenv("LINESHAFT_TOKENIZERS")) + "/" + name + ".json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto json = parse_json(text);
  ASSERT_TRUE(json.ok()) << json.status();
  const auto tokenizer = tokenizer_from_data(as_gguf(*json, pre));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const Json& line : lines_) {
    const auto line_text = line["text"].get<std::string>();
    const auto ids = line["ids"].get<Ids>();
    const auto plain = line.contains("ids_plain") ? line["ids_plain"].get<Ids>() : ids;
    EXPECT_EQ((*tokenizer)->encode(line_text, Tokenizer::Mode::kSpecial), ids) << line["id"];
    EXPECT_EQ((*tokenizer)->encode(line_text, Tokenizer::Mode::kPlain), plain) << line["id"];
  }
}

// Random text of all planes, with the names of control tokens in it.
std::string random_text(RngKey key, const Vocab& vocab) {
  std::string text;
  const uint64_t count = 1 + key.below(0, 20);
  for (uint64_t i = 1; i <= count; ++i) {
    const RngKey part = key.split(i);
    switch (part.below(0, 6)) {
      case 0: text += vocab.bytes[part.below(1, vocab.bytes.size())]; break;
      case 1: text += std::string(part.below(1, 40), " \n\t\r"[part.below(2, 4)]); break;
      case 2: text += std::to_string(part.below(1, 1'000'000)); break;
      default: {
        auto c = static_cast<uint32_t>(part.below(1, part.below(2, 2) == 0 ? 0x110000 : 0x3000));
        if (c >= 0xd800 && c < 0xe000) c = 0x20ac;
        append_utf8(c, text);
      }
    }
  }
  return repair_utf8(text);  // tokens may be parts of characters
}

TEST_P(TokenizerGolden, any_text_comes_back_and_plain_text_holds_no_control_token) {
  const Vocab& vocab = *tokenizer_->vocab();
  // Form C and the mark for a space change text by design.
  const std::string name = GetParam();
  const bool exact = name != "qwen3" && name != "gemma3";
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = random_text(RngKey(41).split(seed), vocab);
    const Ids plain = tokenizer_->encode(text, Tokenizer::Mode::kPlain);
    for (const TokenId id : plain) ASSERT_NE(vocab.kinds[id], TokenKind::kControl) << text;
    if (!exact) continue;
    ASSERT_EQ(tokenizer_->decode(plain), text);
    ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(text, Tokenizer::Mode::kSpecial)), text);
  }
}

TEST_P(TokenizerGolden, bytes_that_are_not_utf8_and_huge_words_are_encoded) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RngKey key = RngKey(42).split(seed);
    std::string text;
    for (uint64_t i = 0; i < 50; ++i) text.push_back(static_cast<char>(key.below(i, 256)));
    std::string bytes;
    for (const TokenId id : tokenizer_->encode(text, Tokenizer::Mode::kPlain)) {
      bytes += tokenizer_->token_bytes(id);
    }
    ASSERT_EQ(bytes, text);
  }
  for (const char* unit : {"a", " ", "\n", "!", "9", "<", "日", "\u0301", "<｜", "a\u200d"}) {
    std::string text;
    while (text.size() < 200'000) text += unit;
    ASSERT_EQ(tokenizer_->decode(tokenizer_->encode(text, Tokenizer::Mode::kPlain)), text);
  }
}

INSTANTIATE_TEST_SUITE_P(json, TokenizerGolden,
                         testing::Values("deepseek_v3", "deepseek_v4", "deepseek_v41", "qwen3",
                                         "llama3", "gemma3"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace lineshaft::recipe
