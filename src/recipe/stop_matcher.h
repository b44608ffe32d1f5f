// StopMatcher: finds stop strings in text that comes in parts, and holds back no more text than a
// stop string may still need. Knows no tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lineshaft::recipe {

class StopMatcher {
 public:
  // Empty stop strings are left out (the door refuses them). The strings should be well-formed
  // UTF-8; then text is only ever cut between code points.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Result {
    std::string text;      // ready to be shown, in order
    bool matched = false;  // a stop string is complete: `text` is the last there is
    int32_t stop = -1;     // index of that stop string as given
  };

  // The match that is complete first counts, of those that end at one byte the longest; the result
  // over all calls doesn't depend on how the text is cut. After a match every call gives nothing
  // but `matched`. What is held back is the longest suffix of the text so far that is a proper
  // prefix of a stop string. Cost: bytes times stop strings.
  Result push(std::string_view text);

  // The text that is held back: the answer has ended by itself. Empty after a match.
  std::string finish();

 private:
  // Knuth, Morris, Pratt 1977: one automaton a stop string.
  struct Pattern {
    std::string text;
    int32_t index = 0;
    std::vector<size_t> border;  // of text[0, i]: its longest proper prefix that is a suffix
    size_t matched = 0;          // bytes of `text` that end the input so far
  };
  static void step(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
  int32_t stop_ = -1;
};

}  // namespace lineshaft::recipe
