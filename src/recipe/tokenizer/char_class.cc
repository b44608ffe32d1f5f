#include "recipe/tokenizer/char_class.h"

#include <algorithm>
#include <map>

namespace lineshaft::recipe {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
  uint8_t classes;
};

constexpr Range kRanges[] = {
#include "recipe/tokenizer/char_class_table.inc"
};

}  // namespace

const CharClassTable& CharClassTable::get() {
  static const CharClassTable table;
  return table;
}

CharClassTable::CharClassTable() {
  std::map<std::array<uint8_t, 256>, uint16_t> known;
  const Range* range = std::begin(kRanges);
  for (uint32_t page = 0; page < kPages; ++page) {
    std::array<uint8_t, 256> content{};
    const uint32_t first = page * 256;
    const uint32_t last = first + 255;
    while (range != std::end(kRanges) && range->last < first) ++range;
    for (const Range* r = range; r != std::end(kRanges) && r->first <= last; ++r) {
      const uint32_t from = std::max(r->first, first) - first;
      const uint32_t to = std::min(r->last, last) - first;
      std::fill(content.begin() + from, content.begin() + to + 1, r->classes);
    }
    const auto [it, is_new] = known.emplace(content, static_cast<uint16_t>(known.size()));
    if (is_new) classes_.insert(classes_.end(), content.begin(), content.end());
    pages_[page] = it->second;
  }
}

}  // namespace lineshaft::recipe
