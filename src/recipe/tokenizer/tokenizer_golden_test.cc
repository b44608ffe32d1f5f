// At stake: another id than the model's makers give means another prompt than the model learned.
// Golden ids of 479 texts for six released tokenizers (tests/golden/tokenizer/README.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/json.h"
#include "recipe/detokenizer.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {
namespace {

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
    if (folder == nullptr) {
      GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set (tests/golden/tokenizer/fetch)";
    }
    auto tokenizer =
        tokenizer_from_json_file(std::string(folder) + "/" + GetParam() + ".json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *tokenizer;
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

INSTANTIATE_TEST_SUITE_P(json, TokenizerGolden,
                         testing::Values("deepseek_v3", "deepseek_v4", "deepseek_v41", "qwen3",
                                         "llama3", "gemma3"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace lineshaft::recipe
