// Character classes: which Unicode category a code point has, as the reference runtime sees it.
// A table, written by tests/golden/tokenizer/make_char_classes.py; knows no pre-tokenizer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {

enum CharClass : uint8_t {
  kLetter = 1,       // \p{L}, Unicode 16
  kNumber = 2,       // \p{N}, Unicode 16
  kSpace = 4,        // White_Space
  kMark = 8,         // \p{M}, Unicode 16
  kPunctuation = 16,  // \p{P}, Unicode 16
  kSymbol = 32,      // \p{S}, Unicode 16
  kNumeric = 64,     // Nd, Nl and No of Unicode 17: what the Digits pre-tokenizer takes
};

// Two stages: pages of 256 code points, equal pages stored once.
class CharClassTable {
 public:
  // The one table; built at first use (thread-safe), about a millisecond.
  static const CharClassTable& get();

  // OR of CharClass bits; 0 for what has none of these classes and for kInvalidByte.
  uint8_t of(uint32_t code_point) const {
    const uint32_t page = code_point >> 8;
    return page < kPages ? classes_[pages_[page] * 256u + (code_point & 255)] : 0;
  }
  uint8_t of_ascii(uint8_t byte) const { return classes_[pages_[0] * 256u + byte]; }

 private:
  static constexpr uint32_t kPages = 0x110000 / 256;
  CharClassTable();

  std::array<uint16_t, kPages> pages_{};
  std::vector<uint8_t> classes_;
};

}  // namespace lineshaft::recipe
