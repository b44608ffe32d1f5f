// At stake: whatever a model says, and however it is cut into pieces, there is one answer and no
// crash.
#include "recipe/parser/dsml_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;
using Origin = AnswerParser::Origin;
using Start = ParserOptions::Start;

struct Piece {
  std::string text;
  Origin origin = Origin::kUnknown;
};

// With the texts of one kind in a row joined, as the cuts move their borders.
std::vector<AnswerEvent> parse(const ParserOptions& options, const std::vector<Piece>& pieces) {
  DsmlParser parser(options);
  std::vector<AnswerEvent> out;
  for (const Piece& piece : pieces) parser.push(piece.text, piece.origin, out);
  parser.finish(out);
  std::vector<AnswerEvent> joined;
  for (AnswerEvent& event : out) {
    const bool same = !joined.empty() && joined.back().kind == event.kind;
    if (same && event.kind != Kind::kCall) {
      joined.back().text += event.text;
    } else {
      joined.push_back(std::move(event));
    }
  }
  return joined;
}

std::string joined(const std::vector<AnswerEvent>& events, Kind kind) {
  std::string out;
  for (const AnswerEvent& event : events) {
    if (event.kind == kind) out += event.text;
  }
  return out;
}

// `text` cut at code points.
std::vector<Piece> cut(const std::string& text, std::mt19937& random) {
  std::vector<Piece> out;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(begin + 1 + random() % 7, text.size());
    while (end < text.size() && (text[end] & 0xc0) == 0x80) ++end;
    out.push_back({text.substr(begin, end - begin)});
    begin = end;
  }
  return out;
}

TEST(DsmlParser, text_that_spells_a_marker_in_ordinary_tokens_is_text) {
  const ParserOptions options{.start = Start::kReasoning, .tools = true};
  const auto events = parse(options, {{"a</think>b\n\n<｜DSML｜tool_calls>", Origin::kPlain},
                                      {"</think>", Origin::kControl},
                                      {"c", Origin::kPlain}});
  EXPECT_EQ(joined(events, Kind::kReasoning), "a</think>b\n\n<｜DSML｜tool_calls>");
  EXPECT_EQ(joined(events, Kind::kContent), "c");
}

TEST(DsmlParser, a_raw_value_that_is_no_json_becomes_a_string) {
  const auto events = parse(
      {.tools = true},
      {{"<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a b\" "
        "string=\"false\">{\"x\": </｜DSML｜parameter>\n<｜DSML｜parameter name=\"c\" "
        "string=\"false\">[1, 2]</｜DSML｜parameter>\n<｜DSML｜parameter name=\"d\" "
        "string=\"maybe\">x</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"}});
  const auto json = parse_json(joined(events, Kind::kArguments));
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a b"], "{\"x\": ");
  EXPECT_EQ((*json)["c"], Json::array({1, 2}));
}

TEST(DsmlParser, only_line_breaks_next_to_a_block_belong_to_it) {
  const auto events = parse({.tools = true}, {{"a\n\nb" + std::string(100, '\n')},
                                              {"<｜DSML｜tool_calls></｜DSML｜tool_calls>"}});
  EXPECT_EQ(joined(events, Kind::kContent), "a\n\nb" + std::string(36, '\n'));
}

TEST(DsmlParser, a_million_line_breaks_take_no_quadratic_time) {
  DsmlParser parser({.tools = true});
  std::vector<AnswerEvent> out;
  for (int i = 0; i < 1'000'000; ++i) parser.push("\n", Origin::kPlain, out);
  parser.push("x", Origin::kPlain, out);
  parser.finish(out);
  EXPECT_EQ(joined(out, Kind::kContent), "x");
}

// Random words of the format, cut in two random ways.
TEST(DsmlParser, any_text_gives_the_same_events_however_it_is_cut) {
  const std::vector<std::string> words = {
      "<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>", "<｜DSML｜ calls>", "</｜DSML｜ calls>",
      "<｜DSML｜invoke name=\"", "f\">", "</｜DSML｜invoke>", "<｜DSML｜parameter name=\"",
      "k\" string=\"true\">", "k\" string=\"false\">", "</｜DSML｜parameter>", "</think>", "<think>",
      "\n", "\n\n", "<", "</", "\"", ">", "text ", "你好", "{", "}", "[1]", "```json", "```", "STOP",
      "ST", "｜DSML｜", "true", "👩‍👧"};
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t i = random() % 40; i > 0; --i) text += words[random() % words.size()];
    ParserOptions options;
    options.start = static_cast<Start>(random() % 5);
    options.tools = random() % 2 == 0;
    options.json = random() % 4 == 0;
    if (random() % 2 == 0) options.stops = {"STOP", "]"};
    const auto whole = parse(options, {{text}});
    EXPECT_EQ(parse(options, cut(text, random)), whole) << text;
  }
}

}  // namespace
}  // namespace lineshaft::recipe
