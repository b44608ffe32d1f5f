// UTF-8, one code point at a time, over bytes that may be anything. Knows no tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lineshaft::recipe {

struct CodePoint {
  uint32_t value = 0;  // kInvalidByte when the byte starts no well-formed sequence
  uint32_t length = 1;  // bytes consumed, >= 1
};

inline constexpr uint32_t kInvalidByte = 0xffffffffu;

// How many bytes a lead byte announces; 0 for a byte that can't lead (Unicode 15, table 3-7).
inline uint32_t utf8_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// Whether `next` may follow as the second byte after `lead` (rejects overlong forms, surrogates
// and values beyond U+10FFFF; Unicode 15, table 3-7).
inline bool utf8_second_ok(uint8_t lead, uint8_t next) {
  switch (lead) {
    case 0xe0: return next >= 0xa0 && next <= 0xbf;
    case 0xed: return next >= 0x80 && next <= 0x9f;
    case 0xf0: return next >= 0x90 && next <= 0xbf;
    case 0xf4: return next >= 0x80 && next <= 0x8f;
    default: return (next & 0xc0) == 0x80;
  }
}

// Length of the well-formed prefix of a sequence at p (p < end): the whole sequence when it is
// complete, else the maximal subpart, at least 1. `complete` tells which.
inline uint32_t utf8_subpart(const char* p, const char* end, bool& complete) {
  const auto* u = reinterpret_cast<const uint8_t*>(p);
  const uint32_t want = utf8_length(u[0]);
  complete = want == 1;
  if (want < 2) return 1;
  const auto have = static_cast<size_t>(end - p);
  if (have < 2 || !utf8_second_ok(u[0], u[1])) return 1;
  uint32_t length = 2;
  while (length < want && length < have && (u[length] & 0xc0) == 0x80) ++length;
  complete = length == want;
  return length;
}

// The code point at p (p < end). A byte that begins no well-formed sequence is one kInvalidByte.
inline CodePoint decode_utf8(const char* p, const char* end) {
  const auto* u = reinterpret_cast<const uint8_t*>(p);
  if (u[0] < 0x80) return {u[0], 1};
  bool complete = false;
  const uint32_t length = utf8_subpart(p, end, complete);
  if (!complete) return {kInvalidByte, 1};
  uint32_t value = u[0] & (0x7fu >> length);
  for (uint32_t i = 1; i < length; ++i) value = value << 6 | (u[i] & 0x3f);
  return {value, length};
}

// Appends the UTF-8 form of a scalar value.
inline void append_utf8(uint32_t value, std::string& out) {
  if (value < 0x80) {
    out.push_back(static_cast<char>(value));
    return;
  }
  if (value < 0x800) {
    out.push_back(static_cast<char>(0xc0 | value >> 6));
  } else if (value < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | value >> 12));
    out.push_back(static_cast<char>(0x80 | (value >> 6 & 0x3f)));
  } else {
    out.push_back(static_cast<char>(0xf0 | value >> 18));
    out.push_back(static_cast<char>(0x80 | (value >> 12 & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (value >> 6 & 0x3f)));
  }
  out.push_back(static_cast<char>(0x80 | (value & 0x3f)));
}

}  // namespace lineshaft::recipe
