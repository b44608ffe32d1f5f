// At stake: no reader may see a part of a stop string, and no answer may lose its end.
#include "recipe/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace lineshaft::recipe {
namespace {

TEST(StopMatcher, shows_no_part_of_a_stop_string_that_comes_in_pieces) {  // P009
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("ABC").text, "ABC");
  for (const char* part : {"DEF", "G", "HI"}) {
    const auto result = matcher.push(part);
    EXPECT_EQ(result.text, "");
    EXPECT_FALSE(result.matched);
  }
  const auto last = matcher.push("JKL");
  EXPECT_TRUE(last.matched);
  EXPECT_EQ(last.stop, 0);
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(matcher.push("more").text, "");
  EXPECT_TRUE(matcher.push("more").matched);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, does_not_delay_text_that_begins_no_stop_string) {  // P009
  StopMatcher matcher({"zzzz"});
  EXPECT_EQ(matcher.push("The quick").text, "The quick");
  EXPECT_EQ(matcher.push(" zz").text, " ");
  EXPECT_EQ(matcher.push("a").text, "zza");
}

TEST(StopMatcher, gives_back_held_text_when_the_answer_ends_by_itself) {  // P011, P012
  StopMatcher matcher({"as\n", "XYZ"});
  EXPECT_EQ(matcher.push("ple").text, "ple");
  EXPECT_EQ(matcher.push("as").text, "");
  EXPECT_EQ(matcher.finish(), "as");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, the_match_that_is_complete_first_counts_and_of_those_the_longest) {
  StopMatcher first({"bcde", "cd"});
  const auto a = first.push("abcdef");
  EXPECT_EQ(a.text, "ab");
  EXPECT_EQ(a.stop, 1);
  StopMatcher longest({"cd", "bcd"});
  const auto b = longest.push("abcd");
  EXPECT_EQ(b.text, "a");
  EXPECT_EQ(b.stop, 1);
}

TEST(StopMatcher, without_stop_strings_all_text_passes) {
  StopMatcher matcher({"", ""});
  EXPECT_EQ(matcher.push("abc").text, "abc");
  EXPECT_EQ(matcher.finish(), "");
}

// Length of the longest suffix of `text` that is a proper prefix of a stop string.
size_t held_bytes(const std::string& text, const std::vector<std::string>& stops) {
  size_t best = 0;
  for (const std::string& stop : stops) {
    for (size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.ends_with(stop.substr(0, n))) best = std::max(best, n);
    }
  }
  return best;
}

TEST(StopMatcher, holds_exactly_what_it_must_for_any_text_stops_and_cuts) {
  const auto random_string = [](RngKey key, uint64_t length) {
    std::string out;
    for (uint64_t i = 0; i < length; ++i) out.push_back(static_cast<char>('a' + key.below(i, 2)));
    return out;
  };
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const RngKey key = RngKey(5).split(seed);
    std::vector<std::string> stops;
    for (uint64_t i = 0; i <= key.below(0, 3); ++i) {
      stops.push_back(random_string(key.split(1 + i), 2 + key.below(1 + i, 7)));
    }
    const std::string text = random_string(key.split(9), 30);
    StopMatcher matcher(stops);
    std::string seen;
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + key.below(20 + at, 5);
      const std::string part = text.substr(at, length);
      at += part.size();
      const auto result = matcher.push(part);
      shown += result.text;
      // The earliest end of a stop string in all the text so far, and the longest one there.
      size_t end = std::string::npos;
      size_t bytes = 0;
      seen += part;
      for (const std::string& stop : stops) {
        const size_t found = seen.find(stop);
        if (found == std::string::npos) continue;
        if (found + stop.size() < end) bytes = 0;
        end = std::min(end, found + stop.size());
        if (found + stop.size() == end) bytes = std::max(bytes, stop.size());
      }
      ASSERT_EQ(result.matched, end != std::string::npos);
      if (result.matched) {
        ASSERT_EQ(shown, seen.substr(0, end - bytes));
        ASSERT_EQ(stops[result.stop].size(), bytes);
        ASSERT_EQ(matcher.finish(), "");
        break;
      }
      ASSERT_EQ(shown, seen.substr(0, seen.size() - held_bytes(seen, stops)));
      if (at >= text.size()) {
        ASSERT_EQ(shown + matcher.finish(), text);
      }
    }
  }
}

}  // namespace
}  // namespace lineshaft::recipe
