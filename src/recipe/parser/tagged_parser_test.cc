// At stake: calls and reasoning of models with a chat template reach the client as such, whatever
// the pieces, and what only looks like a call stays text.
#include "recipe/parser/tagged_parser.h"

#include <gtest/gtest.h>

#include <random>

namespace lineshaft::recipe {
namespace {

using Calls = TaggedOptions::Calls;
using Kind = AnswerEvent::Kind;
using Origin = AnswerParser::Origin;

constexpr char kCallF[] = R"(<tool_call>
{"name": "f", "arguments": {"city": "Accra \"x\"", "days": 3}}
</tool_call>)";

// All events in one line, texts of one kind in a row joined.
std::string shown(const std::vector<AnswerEvent>& events) {
  std::string out;
  Kind last = Kind::kCall;
  for (const AnswerEvent& event : events) {
    if (out.empty() || event.kind != last || event.kind == Kind::kCall) {
      if (!out.empty()) out += " | ";
      out += "RTCA"[static_cast<size_t>(event.kind)];
      out += ':';
    }
    out += event.text;
    last = event.kind;
  }
  return out;
}

std::string parse(const TaggedOptions& options, const std::string& text, size_t step,
                  Origin origin = Origin::kUnknown) {
  TaggedParser parser(options);
  std::vector<AnswerEvent> out;
  for (size_t at = 0; at < text.size(); at += step) parser.push(text.substr(at, step), origin, out);
  parser.finish(out);
  EXPECT_TRUE(parser.done());
  return shown(out);
}

TEST(TaggedParser, reasoning_text_and_parallel_calls) {
  const TaggedOptions options{.reasoning = true, .calls = Calls::kTagged};
  const std::string text = std::string("<think>\nHmm <b>\n</think>\n\nI look.\n") + kCallF + "\n" +
                           R"(<tool_call>{"name": "g", "arguments": {}}</tool_call>)" + "\nDone.";
  for (const size_t step : {1, 3, 1000}) {
    EXPECT_EQ(parse(options, text, step),
              R"(R:Hmm <b> | T:I look. | C:f | A:{"city":"Accra \"x\"","days":3} | C:g | A:{} | )"
              "T:Done.");
  }
}

TEST(TaggedParser, a_prompt_that_ends_inside_the_reasoning) {
  const TaggedOptions options{.begins_in_reasoning = true, .reasoning = true};
  EXPECT_EQ(parse(options, "a\n</think>\n\nb", 2), "R:a | T:b");
  EXPECT_EQ(parse(options, "never ends", 2), "R:never ends");
}

TEST(TaggedParser, what_is_no_call_is_content_to_the_byte) {
  const TaggedOptions options{.calls = Calls::kTagged};
  for (const std::string text :
       {"x <tool_call>{\"name\": </tool_call> y", "<tool_call>", "<tool_cal", "a <tool_call>{}",
        "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"}) {
    for (const size_t step : {1, 5, 1000}) EXPECT_EQ(parse(options, text, step), "T:" + text);
  }
}

TEST(TaggedParser, a_call_whose_closing_tag_is_cut_is_one) {
  const std::string text(kCallF, sizeof(kCallF) - 8);
  EXPECT_EQ(parse({.calls = Calls::kTagged}, "<tool_call>{\"name\": \"f\"}", 4), "C:f | A:{}");
  EXPECT_EQ(parse({.calls = Calls::kTagged}, text, 4).substr(0, 2), "T:");
}

TEST(TaggedParser, markers_that_are_tokens_are_text_in_other_tokens) {
  const TaggedOptions options{.reasoning = true,
                              .calls = Calls::kTagged,
                              .think_is_token = true,
                              .call_is_token = true};
  const std::string text = "<think>a</think><tool_call>{\"name\": \"f\"}</tool_call>";
  EXPECT_EQ(parse(options, text, 3, Origin::kPlain), "T:" + text);
}

TEST(TaggedParser, an_answer_of_json_is_calls_when_it_names_them) {
  const TaggedOptions options{.calls = Calls::kJson};
  for (const size_t step : {1, 4, 1000}) {
    EXPECT_EQ(parse(options, R"({"name": "f", "parameters": {"a": 1}}; {"name": "g"})", step),
              R"(C:f | A:{"a":1} | C:g | A:{})");
    EXPECT_EQ(parse(options, R"(<|python_tag|>{"name": "f", "parameters": {}})", step),
              "C:f | A:{}");
    for (const std::string text : {R"({"answer": 1})", R"({"name": "f", "parameters": )", "{",
                                   R"({"name": "f", "parameters": {}} and more)"}) {
      EXPECT_EQ(parse(options, text, step), "T:" + text);
    }
  }
}

TEST(TaggedParser, stop_strings_end_the_content_alone) {
  const TaggedOptions options{
      .reasoning = true, .calls = Calls::kTagged, .stops = {"END", "city"}};
  EXPECT_EQ(parse(options, "<think>END</think>a END b", 2), "R:END | T:a ");
  EXPECT_EQ(parse(options, std::string("a E") + kCallF, 2).substr(0, 10), "T:a E | C:");
}

TEST(TaggedParser, any_text_gives_the_same_events_however_it_is_cut) {
  const std::vector<std::string> words = {
      "<think>", "</think>", "<tool_call>", "</tool_call>", R"({"name": "f", "arguments": {}})",
      "\n",      " ",        "<",           "</",           "{", "}", "\"", "text", "STOP", "ST",
      std::string(70, '\n')};
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 20; i > 0; --i) text += words[random() % words.size()];
    TaggedOptions options;
    options.reasoning = random() % 2 == 0;
    options.begins_in_reasoning = random() % 4 == 0;
    options.calls = static_cast<Calls>(random() % 3);
    if (random() % 2 == 0) options.stops = {"STOP"};
    EXPECT_EQ(parse(options, text, 1 + random() % 7), parse(options, text, 100000)) << text;
  }
}

TEST(TaggedParser, long_answers_take_no_quadratic_time) {
  TaggedParser parser({.reasoning = true, .calls = Calls::kTagged});
  std::vector<AnswerEvent> out;
  for (const char* text : {"\n", "<tool_call>", "x", "<"}) {
    for (int i = 0; i < 300'000; ++i) {
      parser.push(text, Origin::kPlain, out);
      out.clear();
    }
    parser.push("a", Origin::kPlain, out);
  }
  parser.finish(out);
}

}  // namespace
}  // namespace lineshaft::recipe
