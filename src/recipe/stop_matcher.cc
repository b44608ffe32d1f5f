#include "recipe/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace lineshaft::recipe {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) continue;
    Pattern pattern{std::move(stops[i]), static_cast<int32_t>(i), {}, 0};
    pattern.border.assign(pattern.text.size(), 0);
    for (size_t at = 1, length = 0; at < pattern.text.size(); ++at) {
      while (length > 0 && pattern.text[at] != pattern.text[length]) {
        length = pattern.border[length - 1];
      }
      if (pattern.text[at] == pattern.text[length]) ++length;
      pattern.border[at] = length;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::step(Pattern& pattern, char byte) {
  size_t& matched = pattern.matched;
  while (matched > 0 && pattern.text[matched] != byte) matched = pattern.border[matched - 1];
  if (pattern.text[matched] == byte) ++matched;
}

StopMatcher::Result StopMatcher::push(std::string_view text) {
  if (stop_ >= 0) return {{}, true, stop_};
  for (size_t i = 0; i < text.size(); ++i) {
    size_t match_bytes = 0;
    for (Pattern& pattern : patterns_) {
      step(pattern, text[i]);
      if (pattern.matched != pattern.text.size() || pattern.matched <= match_bytes) continue;
      match_bytes = pattern.matched;
      stop_ = pattern.index;
    }
    if (match_bytes == 0) continue;
    held_ += text.substr(0, i + 1);
    held_.resize(held_.size() - match_bytes);
    return {std::exchange(held_, {}), true, stop_};
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.matched);
  held_ += text;
  Result result;
  result.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, result.text.size());
  return result;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace lineshaft::recipe
