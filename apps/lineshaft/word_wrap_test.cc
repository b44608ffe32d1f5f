#include "lineshaft/word_wrap.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "base/rng.h"

namespace lineshaft::app {
namespace {

std::string wrapped(std::string_view text, size_t width, size_t piece = 1) {
  WordWrap wrap(width);
  std::string out;
  for (size_t i = 0; i < text.size(); i += piece) out += wrap.add(text.substr(i, piece));
  return out + wrap.finish();
}

TEST(WordWrap, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("a\n\nb  c", 8), "a\n\nb  c");
  EXPECT_EQ(wrapped("one two three", 0), "one two three");
  EXPECT_EQ(wrapped("é é é é", 3), "é é\né é");
}

TEST(WordWrap, LeavesCodeTablesAndIndentedLinesAlone) {
  const char* code = "```cpp\nint main() { return 0; }\n```\nin two\nlines";
  EXPECT_EQ(wrapped("```cpp\nint main() { return 0; }\n```\nin two lines", 8), code);
  const char* lines = "| a long table |\n    indented text";
  EXPECT_EQ(wrapped(lines, 8), lines);
}

TEST(WordWrap, ShowsWordsWithoutEndAndScriptsWithoutSpaces) {
  WordWrap wrap(10);
  EXPECT_EQ(wrap.add("short "), "short");
  EXPECT_EQ(wrap.add("word"), "");
  EXPECT_EQ(wrap.add(" "), " word");
  EXPECT_EQ(wrap.add("漢字"), "\n漢字");
  EXPECT_FALSE(WordWrap(10).add("aaaaaaaaaaaaaaaaaaaaaaaaa").empty());
}

TEST(WordWrap, ChangesNothingButSpacesHoweverTheTextIsCut) {
  const std::string_view parts[] = {"a", "word", " ", " ", "\n", "漢", "🦊", "é",
                                    "```", "| ", "longer_one"};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RngKey key(seed);
    std::string text;
    for (uint64_t i = 0; i < 60; ++i) text += parts[key.bits(i) % std::size(parts)];
    const size_t width = 4 + key.bits(1000) % 30;
    const std::string whole = wrapped(text, width, text.size());
    EXPECT_EQ(wrapped(text, width, 1 + key.bits(2000) % 7), whole) << seed;
    const auto without_blanks = [](std::string_view s) {
      std::string out;
      for (const char c : s) {
        if (c != ' ' && c != '\n') out += c;
      }
      return out;
    };
    EXPECT_EQ(without_blanks(whole), without_blanks(text)) << seed;
  }
}

}  // namespace
}  // namespace lineshaft::app
