// Which characters count as white space, as Python's str.strip() and regular expressions have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe::jinja {

inline bool is_space(uint32_t point) {
  return (point >= 0x09 && point <= 0x0d) || (point >= 0x1c && point <= 0x20) || point == 0x85 ||
         point == 0xa0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200a) ||
         point == 0x2028 || point == 0x2029 || point == 0x202f || point == 0x205f ||
         point == 0x3000;
}

// Where the last code point of text[0, end) begins; end > 0.
inline size_t last_point_begin(std::string_view text, size_t end) {
  size_t begin = end - 1;
  const auto continues = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80; };
  while (begin > 0 && end - begin < 4 && continues(begin)) --begin;
  const CodePoint point = decode_utf8(text.data() + begin, text.data() + end);
  return begin + point.length == end ? begin : end - 1;
}

// Bytes at the front, and where the rest ends at the back, of the code points that `drop` takes.
template <typename F>
size_t skip_front(std::string_view text, const F& drop) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text.data() + at, text.data() + text.size());
    if (!drop(point.value)) break;
    at += point.length;
  }
  return at;
}

template <typename F>
size_t skip_back(std::string_view text, const F& drop) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = last_point_begin(text, end);
    if (!drop(decode_utf8(text.data() + begin, text.data() + end).value)) break;
    end = begin;
  }
  return end;
}

}  // namespace lineshaft::recipe::jinja
