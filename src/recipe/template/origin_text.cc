#include "recipe/template/origin_text.h"

#include <utility>

namespace lineshaft::recipe {

OriginText::OriginText(std::string text, Origin origin) : text_(std::move(text)) {
  if (!text_.empty()) runs_.push_back({text_.size(), origin});
}

void OriginText::append(std::string_view text, Origin origin) {
  if (text.empty()) return;
  text_ += text;
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = text_.size();
  } else {
    runs_.push_back({text_.size(), origin});
  }
}

void OriginText::append_slice(const OriginText& from, size_t begin, size_t end) {
  const auto first = std::upper_bound(from.runs_.begin(), from.runs_.end(), begin,
                                      [](size_t at, const Run& run) { return at < run.end; });
  const std::string_view text = from.text_;
  for (auto run = first; run != from.runs_.end() && begin < end; ++run) {
    const size_t stop = std::min(run->end, end);
    append(text.substr(begin, stop - begin), run->origin);
    begin = stop;
  }
}

OriginText OriginText::slice(size_t begin, size_t end) const {
  OriginText out;
  out.append_slice(*this, begin, end);
  return out;
}

Origin OriginText::origin() const {
  const bool user = std::any_of(runs_.begin(), runs_.end(),
                                [](const Run& run) { return run.origin == Origin::kUser; });
  return user ? Origin::kUser : Origin::kScaffolding;
}

}  // namespace lineshaft::recipe
