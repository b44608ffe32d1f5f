// At stake: a chat prompt must be, to the id, what SmolLM2's own template and tokenizer make of the
// conversation (tests/golden/recipe/README.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/json.h"
#include "model/gguf.h"
#include "model/spec_loader.h"
#include "recipe/encoding/chat_encoder.h"

namespace lineshaft::recipe {
namespace {

Role role_of(const std::string& name) {
  if (name == "system") return Role::kSystem;
  if (name == "assistant") return Role::kAssistant;
  return name == "tool" ? Role::kTool : Role::kUser;
}

TEST(ChatGolden, smollm2_prompts_have_the_ids_of_the_reference) {
  const char* path = std::getenv("LINESHAFT_SMOLLM2");
  if (path == nullptr) GTEST_SKIP() << "LINESHAFT_SMOLLM2 is not set";
  const auto file = model::GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  auto data = model::load_tokenizer_data(**file);
  ASSERT_TRUE(data.ok()) << data.status();
  const auto tokenizer = tokenizer_from_data(*std::move(data));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto chat_template = (*file)->string("tokenizer.chat_template");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  const auto encoder = make_chat_encoder(*tokenizer, *chat_template, "smollm2",
                                         [] { return int64_t{0}; });
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  std::ifstream lines("tests/golden/recipe/templates/smollm2_cases.jsonl");
  int compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json item = *parse_json(line);
    const Json& expected = item["expected"];
    if (expected.contains("error")) continue;
    Conversation conversation;
    for (const Json& message : item["request"]["messages"]) {
      conversation.turns.push_back({role_of(message["role"].get<std::string>()),
                                    message["content"].get<std::string>()});
    }
    const bool open = item["request"]["add_generation_prompt"].get<bool>();
    EXPECT_EQ(*(*encoder)->encode(conversation, open),
              expected["token_ids"].get<std::vector<TokenId>>())
        << item["id"];
    ++compared;
  }
  EXPECT_GE(compared, 35);
}

}  // namespace
}  // namespace lineshaft::recipe
