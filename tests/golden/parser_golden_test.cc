// At stake: what DeepSeek V4 and V4.1 say must be parsed into the answer that the reference gives,
// as text or as tokens, in whatever pieces (tests/golden/recipe/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/json.h"
#include "recipe/parser/dsml_parser.h"
#include "recipe/parser/token_pieces.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

ParserOptions options_of(const Json& parsing) {
  ParserOptions options;
  const std::string stage = parsing["thinking_initial_stage"].is_string()
                                ? parsing["thinking_initial_stage"].get<std::string>()
                                : "";
  using Start = ParserOptions::Start;
  if (stage == "ReasoningStart") options.start = Start::kReasoning;
  if (stage == "ReasoningContinuation") options.start = Start::kReasoningGoesOn;
  if (stage == "ContentContinuation") options.start = Start::kContentGoesOn;
  if (parsing["starts_in_tool_calls"]) options.start = Start::kCalls;
  options.tools = parsing["parse_tool_calls"];
  options.json = parsing["parse_json_output"];
  options.stops = parsing["stop_sequences"].get<std::vector<std::string>>();
  return options;
}

struct Message {
  std::string reasoning;
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  std::string finish_reason;

  friend bool operator==(const Message&, const Message&) = default;
};

void PrintTo(const Message& message, std::ostream* out) {
  *out << "reasoning: " << message.reasoning << " content: " << message.content;
  for (const auto& [name, arguments] : message.calls) *out << " call: " << name << arguments;
  *out << " finish: " << message.finish_reason;
}

Message expected_of(const Json& final) {
  const Json& choice = final["choices"][0];
  const Json& message = choice["message"];
  const auto text = [&](const char* key) {
    return message.contains(key) && message[key].is_string() ? message[key].get<std::string>() : "";
  };
  Message out{text("reasoning_content"), text("content"), {}, choice["finish_reason"]};
  for (const Json& call : message.value("tool_calls", Json::array())) {
    out.calls.emplace_back(call["function"]["name"], call["function"]["arguments"]);
  }
  return out;
}

Message parsed(const Json& line, const Tokenizer& tokenizer) {
  DsmlParser parser(options_of(line["parsing"]));
  TokenPieces pieces(tokenizer.vocab());
  std::vector<AnswerEvent> events;
  std::string finish = "stop";
  for (const Json& chunk : line["input"]) {
    if (chunk.contains("text")) {
      parser.push(chunk["text"].get<std::string>(), AnswerParser::Origin::kUnknown, events);
    }
    for (const Json& id : chunk.value("token_ids", Json::array())) {
      pieces.push(id.get<TokenId>(), parser, events);
    }
    if (chunk.contains("finish")) finish = chunk["finish"].get<std::string>();
  }
  parser.finish(events);
  Message out;
  for (const AnswerEvent& event : events) {
    if (event.kind == Kind::kReasoning) out.reasoning += event.text;
    if (event.kind == Kind::kContent) out.content += event.text;
    if (event.kind == Kind::kCall) out.calls.emplace_back(event.text, "");
    if (event.kind == Kind::kArguments) out.calls.back().second += event.text;
  }
  out.finish_reason = finish == "stop" && parser.calls() > 0 ? "tool_calls" : finish;
  return out;
}

// Parts of ids of the cases where we differ on purpose (departures.md).
bool departs(const std::string& id) {
  std::ifstream lines("tests/golden/recipe/departures.md");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `parse/")) continue;
    if (id.find(line.substr(3, line.find('`', 3) - 3)) != std::string::npos) return true;
  }
  return false;
}

void compare(const std::string& name) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const auto tokenizer =
      tokenizer_from_json_file(std::string(folder) + "/deepseek_" + name + ".json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream lines("tests/golden/recipe/" + name + "_parse_cases.jsonl");
  int compared = 0;
  for (std::string text; std::getline(lines, text);) {
    const Json line = *parse_json(text);
    const std::string id = line["id"].get<std::string>();
    if (line["api"] != "chat") continue;  // the same words in another form
    // An error there is a fault of what fed the parser.
    if (departs(id) || line["expected"].contains("error")) continue;
    EXPECT_EQ(parsed(line, **tokenizer), expected_of(line["expected"]["final"])) << id;
    ++compared;
  }
  EXPECT_GE(compared, 120);
}

TEST(ParserGolden, v4_answers_are_those_of_the_reference) { compare("v4"); }

TEST(ParserGolden, v41_answers_are_those_of_the_reference) { compare("v41"); }

}  // namespace
}  // namespace lineshaft::recipe
