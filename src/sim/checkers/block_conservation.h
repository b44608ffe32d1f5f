// Block conservation: after the last request no block is held, and none is lost. Sees three
// numbers only.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lineshaft::sim {

inline void check_block_conservation(int32_t free, int32_t cached, int32_t held, int32_t total,
                                     std::vector<std::string>* violations) {
  if (held == 0 && free + cached == total) return;
  violations->push_back(
      fmt::format("{} free, {} cached, {} held of {} blocks at the end", free, cached, held,
                  total));
}

}  // namespace lineshaft::sim
