#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace lineshaft {
namespace {

// One code point at the head of `text`: its length when well-formed; else the length of the
// maximal ill-formed subpart (>= 1).
struct Unit {
  size_t length;
  bool valid;
};

Unit read_unit(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {1, true};
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {i, false};
    const auto next = static_cast<uint8_t>(text[i]);
    if (next < low || next > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

// Bytes of pure ASCII at the head of `text`, found eight at a time.
size_t ascii_prefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080ull) break;
  }
  while (i < text.size() && static_cast<uint8_t>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    i += ascii_prefix(text.substr(i));
    if (i >= text.size()) break;
    const Unit unit = read_unit(text.substr(i));
    if (!unit.valid) return i;
    i += unit.length;
  }
  return text.size();
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t good = valid_utf8_prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    text.remove_prefix(read_unit(text).length);
    out.append("\xef\xbf\xbd");
  }
  return out;
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xc0) != 0x80;
  return count;
}

}  // namespace lineshaft
