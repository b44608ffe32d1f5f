// Dice: draws in a row from one key, for making scenarios (never for decisions).
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace lineshaft::sim {

class Dice {
 public:
  explicit Dice(RngKey key) : key_(key) {}

  // In [low, high].
  int32_t between(int32_t low, int32_t high) {
    const auto span = static_cast<uint64_t>(high - low) + 1;
    return low + static_cast<int32_t>(key_.below(counter_++, span));
  }
  bool chance(int32_t permille) { return between(0, 999) < permille; }
  uint64_t bits() { return key_.bits(counter_++); }

 private:
  RngKey key_;
  uint64_t counter_ = 0;
};

}  // namespace lineshaft::sim
