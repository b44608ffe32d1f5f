// OriginText: text in which every byte knows who wrote it. What a template does to text (joining,
// cutting, replacing) keeps that. Knows no tokens and no templates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lineshaft::recipe {

enum class Origin : uint8_t {
  kScaffolding,  // the model's own template: may spell control tokens
  kUser,         // anything that came with a request: never may
};

// What is made of both is the user's.
inline Origin mixed(Origin a, Origin b) { return std::max(a, b); }

class OriginText {
 public:
  OriginText() = default;
  OriginText(std::string text, Origin origin);

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }

  void append(std::string_view text, Origin origin);
  void append(const OriginText& other) { append_slice(other, 0, other.size()); }
  // Bytes [begin, end) of another text; begin <= end <= from.size().
  void append_slice(const OriginText& from, size_t begin, size_t end);

  // Bytes [begin, end); begin <= end <= size().
  OriginText slice(size_t begin, size_t end) const;

  // kUser when one byte is.
  Origin origin() const;

  // Calls f(bytes, origin) for each longest stretch of one origin, in order.
  template <typename F>
  void each_run(F&& f) const {
    size_t begin = 0;
    for (const Run& run : runs_) {
      f(std::string_view(text_).substr(begin, run.end - begin), run.origin);
      begin = run.end;
    }
  }

 private:
  struct Run {
    size_t end = 0;  // begins where the one before ends; neighbours differ in origin
    Origin origin = Origin::kScaffolding;
  };

  std::string text_;
  std::vector<Run> runs_;
};

}  // namespace lineshaft::recipe
