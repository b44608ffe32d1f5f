// Gumbel noise from counter-based bits: noise = f(seed, choice, position, token).
//
// Owns the map from bits to noise and its bounds. Holds no state: whoever asks for the same
// (seed, choice, position, token) gets the same bits on every machine, in any order (math.h).
#pragma once

#include <bit>
#include <cstdint>

#include "base/rng.h"
#include "core/ids.h"

namespace lineshaft::decoding {

// No noise is larger (u has a resolution of 2^-53, and 53 ln 2 = 36.7368) or smaller
// (-ln(53 ln 2) = -3.6038).
inline constexpr double kGumbelMax = 36.737;
inline constexpr double kGumbelMin = -3.604;

// A standard Gumbel variable -ln(-ln u) from 64 uniform bits; small bits give large noise.
double gumbel(uint64_t bits);

// At least gumbel(bits), for the price of counting leading zeros. With k of them and
// w = 1 - u >= 2^-(k+1): gumbel = -ln(-ln(1 - w)) <= -ln w <= (k + 1) ln 2. The factor is ln 2
// rounded up, which covers the rounding of gumbel() too.
inline double gumbel_bound(uint64_t bits) {
  return (std::countl_zero(bits) + 1) * 0.6931472;
}

// The noise of all tokens at one position of one choice.
class NoiseRow {
 public:
  NoiseRow(uint64_t seed, int32_t choice, int32_t position)
      : key_(RngKey(seed)
                 .split(static_cast<uint64_t>(choice))
                 .split(static_cast<uint64_t>(position))
                 .value()) {}

  // SplitMix64's output number `token` from the state key_ (mix64 adds the last increment).
  uint64_t bits(TokenId token) const {
    return mix64(key_ + static_cast<uint64_t>(token) * 0x9e3779b97f4a7c15ull);
  }
  double noise(TokenId token) const { return gumbel(bits(token)); }

 private:
  uint64_t key_;
};

}  // namespace lineshaft::decoding
