// At stake: the tokenizer that serving uses comes from the GGUF file; its ids must be those of the
// model's makers (tests/golden/tokenizer/README.md) for the models that tests can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/json.h"
#include "model/gguf.h"
#include "model/spec_loader.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {
namespace {

using Ids = std::vector<TokenId>;

struct Case {
  const char* name;
  const char* variable;
};

class TokenizerGguf : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const char* path = std::getenv(GetParam().variable);
    if (path == nullptr) GTEST_SKIP() << GetParam().variable << " is not set";
    const auto file = model::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    auto data = model::load_tokenizer_data(**file);
    ASSERT_TRUE(data.ok()) << data.status();
    auto tokenizer = tokenizer_from_data(*std::move(data));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *tokenizer;
    std::ifstream lines(std::string("tests/golden/tokenizer/") + GetParam().name + ".jsonl");
    for (std::string line; std::getline(lines, line);) lines_.push_back(*parse_json(line));
    ASSERT_EQ(lines_.size(), 479u);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<Json> lines_;
};

TEST_P(TokenizerGguf, gives_the_ids_of_the_reference_in_both_modes) {
  const Vocab& vocab = *tokenizer_->vocab();
  int compared = 0;
  for (const Json& line : lines_) {
    const auto text = line["text"].get<std::string>();
    const auto ids = line["ids"].get<Ids>();
    const auto plain = line.contains("ids_plain") ? line["ids_plain"].get<Ids>() : ids;
    // tokenizer.json of Gemma 3 has one image token more than the text models' files.
    if (std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return id >= vocab.size(); })) {
      continue;
    }
    ++compared;
    EXPECT_EQ(tokenizer_->encode(text, Tokenizer::Mode::kSpecial), ids) << line["id"];
    EXPECT_EQ(tokenizer_->encode(text, Tokenizer::Mode::kPlain), plain) << line["id"];
    const auto decoded = line[line.contains("decoded") ? "decoded" : "text"].get<std::string>();
    EXPECT_EQ(tokenizer_->decode(ids), decoded) << line["id"];
  }
  EXPECT_GE(compared, 478);
}

TEST_P(TokenizerGguf, plain_mode_gives_no_control_token_for_any_control_token_s_name) {
  const Vocab& vocab = *tokenizer_->vocab();
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.kinds[id] != TokenKind::kControl) continue;
    EXPECT_EQ(tokenizer_->encode(vocab.bytes[id], Tokenizer::Mode::kSpecial), Ids{id});
    for (const TokenId got : tokenizer_->encode(vocab.bytes[id], Tokenizer::Mode::kPlain)) {
      ASSERT_NE(vocab.kinds[got], TokenKind::kControl) << vocab.bytes[id];
    }
  }
}

TEST_P(TokenizerGguf, knows_what_ends_an_answer_and_warns_of_nothing) {
  const bool gemma = std::string_view(GetParam().name) == "gemma3";
  const Vocab& vocab = *tokenizer_->vocab();
  EXPECT_EQ(vocab.end_of_generation, gemma ? (Ids{1, 106}) : (Ids{0, 2}));
  EXPECT_EQ(vocab.add_bos, gemma);
  EXPECT_EQ(vocab.bos, gemma ? 2 : 1);
  EXPECT_THAT(tokenizer_->warnings(), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(gguf, TokenizerGguf,
                         testing::Values(Case{"smollm2", "LINESHAFT_SMOLLM2"},
                                         Case{"gemma3", "LINESHAFT_GEMMA3"}),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace lineshaft::recipe
