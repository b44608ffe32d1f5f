// At stake: prompts of DeepSeek V4 and V4.1 must be, to the piece and the id, what the format's
// makers give (tests/golden/recipe/README.md), from the requests of every dialect.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/json.h"
#include "recipe/dialect/anthropic_messages.h"
#include "recipe/dialect/openai_chat.h"
#include "recipe/dialect/openai_responses.h"
#include "recipe/encoding/deepseek.h"
#include "recipe/encoding/deepseek_v3.h"
#include "recipe/encoding/fill_in_middle.h"
#include "recipe/model_format.h"

namespace lineshaft::recipe {
namespace {

using Version = DeepSeekOptions::Version;

// The conversation of the request, read as the line's dialect has it.
StatusOr<Conversation> conversation_of(const Abilities& abilities, const Json& line) {
  DialectLimits limits;
  limits.vocab = 129280;
  limits.tokens_max = 393216;
  limits.abilities = abilities;
  if (line.contains("options")) {
    limits.abilities.thinks_unless_told = line["options"].value("default_thinking_mode", true);
  }
  Json body = line["request"];
  if (body.is_string()) {
    LS_ASSIGN_OR_RETURN(body, parse_json(body.get<std::string>()));
  }
  auto order = line["api"] == "chat"       ? parse_openai_chat(body, limits)
               : line["api"] == "messages" ? parse_anthropic_messages(body, limits)
                                           : parse_openai_responses(body, limits);
  if (!order.ok()) return order.status();
  return order->conversation;
}

std::vector<Piece> pieces_of(const Json& expected) {
  std::vector<Piece> out;
  for (const Json& piece : expected["text_pieces"]) {
    out.push_back({piece[0] == "special", piece[1].get<std::string>()});
  }
  return out;
}

std::string shown_pieces(const std::vector<Piece>& pieces) {
  std::string out;
  for (const Piece& piece : pieces) out += piece.control ? "[" + piece.text + "]" : piece.text;
  return out;
}

// Ids, less the version, of the cases where we differ on purpose (departures.md).
std::set<std::string> departures() {
  std::set<std::string> ids;
  std::ifstream lines("tests/golden/recipe/departures.md");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) ids.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return ids;
}

void compare(Version version, const std::string& name) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const auto tokenizer =
      tokenizer_from_json_file(std::string(folder) + "/deepseek_" + name + ".json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto encoder =
      DeepSeekEncoder::make(*tokenizer, {.version = version, .trust_grounding = true});
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  const auto format = model_format("deepseek_" + name, *tokenizer);
  ASSERT_TRUE(format.ok()) << format.status();
  const std::set<std::string> skipped = departures();
  std::ifstream lines("tests/golden/recipe/" + name + "_cases.jsonl");
  int compared = 0;
  for (std::string text; std::getline(lines, text);) {
    const Json line = *parse_json(text);
    const std::string id = line["id"].get<std::string>();
    if (skipped.contains(id.substr(id.find('/') + 1))) continue;
    ++compared;
    const Json& expected = line["expected"];
    const auto conversation = conversation_of(format->abilities, line);
    EXPECT_EQ(conversation.ok(), !expected.contains("error")) << id << conversation.status();
    if (expected.contains("error") || !conversation.ok()) continue;
    const auto pieces = (*encoder)->pieces(*conversation).value();
    EXPECT_EQ(shown_pieces(pieces), shown_pieces(pieces_of(expected))) << id;
    EXPECT_EQ(pieces, pieces_of(expected)) << id;
    EXPECT_EQ(encode_pieces(pieces, **tokenizer).value(),
              expected["token_ids"].get<std::vector<TokenId>>())
        << id;
  }
  EXPECT_GE(compared, 370);
}

TEST(DeepSeekGolden, v4_prompts_have_the_pieces_and_ids_of_the_reference) {
  compare(Version::kV4, "v4");
}

TEST(DeepSeekGolden, v41_prompts_have_the_pieces_and_ids_of_the_reference) {
  compare(Version::kV41, "v41");
}

Turn turn_of(const Json& message) {
  const std::string role = message["role"].get<std::string>();
  Turn turn;
  turn.role = role == "system"      ? Role::kSystem
              : role == "assistant" ? Role::kAssistant
              : role == "tool"      ? Role::kTool
                                    : Role::kUser;
  turn.content = message["content"].get<std::string>();
  for (const Json& call : message.value("tool_calls", Json::array())) {
    const Json& function = call["function"];
    turn.calls.push_back({"", function["name"].get<std::string>(),
                          write_json(function["arguments"])});
  }
  return turn;
}

// Requests here are a template's input. The released tokenizers of R1 and V3.1 are not to be had;
// ids are compared for V3 alone.
TEST(DeepSeekGolden, v3_r1_and_v31_prompts_are_those_of_the_templates) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const auto tokenizer = tokenizer_from_json_file(std::string(folder) + "/deepseek_v3.json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream lines("tests/golden/recipe/v3_cases.jsonl");
  int compared = 0;
  for (std::string text; std::getline(lines, text);) {
    const Json line = *parse_json(text);
    const Json& expected = line["expected"];
    if (expected.contains("error")) continue;  // the template's own faults, such as list contents
    Conversation conversation;
    for (const Json& message : line["request"]["messages"]) {
      conversation.turns.push_back(turn_of(message));
    }
    conversation.thinking = line["request"].value("enable_thinking", false);
    const bool open = line["request"]["add_generation_prompt"].get<bool>();
    const std::string variant = line["variant"].get<std::string>();
    const auto version = variant == "v3"   ? DeepSeekV3Version::kV3
                         : variant == "r1" ? DeepSeekV3Version::kR1
                                           : DeepSeekV3Version::kV31;
    const auto pieces = DeepSeekV3Encoder::pieces_of(conversation, version, open);
    EXPECT_EQ(pieces, pieces_of(expected)) << line["id"] << shown_pieces(pieces);
    ++compared;
    if (version != DeepSeekV3Version::kV3) continue;
    EXPECT_EQ(encode_pieces(pieces, **tokenizer).value(),
              expected["token_ids"].get<std::vector<TokenId>>())
        << line["id"];
  }
  EXPECT_GE(compared, 120);
}

TEST(FillInMiddle, texts_stand_between_the_tokens_of_the_model_and_stay_texts) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const std::pair<const char*, std::vector<TokenId>> models[] = {
      {"deepseek_v3", {128801, 128800, 128802}},
      {"deepseek_v4", {128801, 128800, 128802}},
      {"deepseek_v41", {128801, 128800, 128802}},
      {"qwen3", {151659, 151661, 151660}}};
  for (const auto& [name, marks] : models) {
    const auto tokenizer = tokenizer_from_json_file(fmt::format("{}/{}.json", folder, name));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const std::string text : {"def f(", "<｜fim▁hole｜>", "<|fim_middle|>", ""}) {
      const auto pieces = fill_in_middle_pieces(**tokenizer, text, text);
      ASSERT_TRUE(pieces.has_value()) << name;
      const auto words = (*tokenizer)->encode(text, Tokenizer::Mode::kPlain);
      std::vector<TokenId> wanted = {marks[0]};
      wanted.insert(wanted.end(), words.begin(), words.end());
      wanted.push_back(marks[1]);
      wanted.insert(wanted.end(), words.begin(), words.end());
      wanted.push_back(marks[2]);
      EXPECT_EQ(encode_pieces(*pieces, **tokenizer).value(), wanted) << name << text;
    }
  }
  const auto none = tokenizer_from_json_file(std::string(folder) + "/gemma3.json");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(fill_in_middle_pieces(**none, "a", "b").has_value());
}

}  // namespace
}  // namespace lineshaft::recipe
