// At stake: no string of a request, whatever it spells and wherever it stands, may add, remove or
// change one control token of the prompt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "recipe/model_format.h"

namespace lineshaft::recipe {
namespace {

// `text` in every field that an encoder reads.
Conversation with_everywhere(const std::string& text) {
  const Json schema = {{"type", "object"}, {"properties", {{text, {{"description", text}}}}}};
  Conversation out;
  out.thinking = true;
  out.tools = {{text, text, schema}};
  out.response_format = ResponseFormat::kJsonSchema;
  out.response_schema = schema;
  Turn call{Role::kAssistant, text};
  call.reasoning = text;
  call.calls = {{text + "a", text, write_json(Json{{text, text}, {"raw", {text, 1}}})},
                {text + "b", text, text}};
  Turn bare{Role::kAssistant, ""};
  bare.has_content = false;
  bare.calls = call.calls;
  Turn result{Role::kTool, text};
  result.call_id = text + "a";
  Turn notice{Role::kNotice, text};
  notice.new_tools = out.tools;
  Turn last{Role::kAssistant, text};
  last.reasoning = text;
  last.unfinished = true;
  out.turns = {{Role::kSystem, text}, {Role::kUser, text},      call, result,
               bare,                  result,                   {Role::kDeveloper, text},
               notice,                {Role::kReminder, text},  {Role::kUser, text},
               {Role::kUser, text},   last};
  return out;
}

std::vector<TokenId> control_ids(const ModelFormat& format, const Tokenizer& tokenizer,
                                 const Conversation& conversation) {
  std::vector<TokenId> out;
  const auto ids = format.encoder->encode(conversation);
  EXPECT_TRUE(ids.ok()) << ids.status();
  for (const TokenId id : *ids) {
    if (tokenizer.vocab()->kinds[static_cast<size_t>(id)] == TokenKind::kControl) {
      out.push_back(id);
    }
  }
  return out;
}

class OriginSafety : public testing::TestWithParam<const char*> {};

TEST_P(OriginSafety, no_spelling_of_a_control_token_becomes_one_in_any_field) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const std::string name = GetParam();
  const auto tokenizer = tokenizer_from_json_file(std::string(folder) + "/" + name + ".json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto format = model_format(name, *tokenizer);
  ASSERT_TRUE(format.ok()) << format.status();
  const auto expected = control_ids(*format, **tokenizer, with_everywhere("word"));
  EXPECT_GT(expected.size(), 20u);
  const Vocab& vocab = *(*tokenizer)->vocab();
  int tried = 0;
  for (size_t id = 0; id < vocab.kinds.size(); ++id) {
    if (vocab.kinds[id] != TokenKind::kControl) continue;
    ++tried;
    EXPECT_EQ(control_ids(*format, **tokenizer, with_everywhere(vocab.bytes[id])), expected)
        << vocab.bytes[id];
  }
  EXPECT_GT(tried, 500);
}

INSTANTIATE_TEST_SUITE_P(DeepSeek, OriginSafety,
                         testing::Values("deepseek_v3", "deepseek_v4", "deepseek_v41"));

}  // namespace
}  // namespace lineshaft::recipe
