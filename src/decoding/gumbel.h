// Gumbel noise from counter-based bits: noise = f(seed, choice, position, token).
//
// Owns the map from bits to noise and its bounds. Holds no state: whoever asks for the same
// (seed, choice, position, token) gets the same bits on every machine, in any order (math.h).
//
// A Gumbel variable is -ln E with E exponential, so the largest noise of a group of tokens comes
// from its least E. That one can be drawn alone: the least of n exponentials is one divided by n,
// it sits at each of the n places equally likely, and the others exceed it by fresh exponentials
// (they have no memory). So each token's noise is independent of all others', as if drawn by
// itself, and a group whose best can't win is skipped by one look.
#pragma once

#include <bit>
#include <cstdint>

#include "base/rng.h"
#include "core/ids.h"

namespace lineshaft::decoding {

// A standard exponential variable from 64 uniform bits, of which the low 12 do not matter. Small
// bits give small values: with k leading zeros at least 2^-(k+1), and never below 2^-53.
double exponential(uint64_t bits);

// At least -ln exponential(bits), for the price of counting leading zeros. The factor is ln 2
// rounded up, which covers all rounding.
inline double negative_ln_bound(uint64_t bits) {
  return (std::countl_zero(bits) + 1) * 0.6931472;
}

inline constexpr TokenId kNoiseGroup = 64;          // tokens [64 g, 64 (g + 1)) are group g
inline constexpr double kLnNoiseGroup = 4.1588832;  // ln 64, rounded up
// No noise is larger: (53 + 6) ln 2 = 40.896.
inline constexpr double kGumbelMax = 40.897;

// The noise of all tokens at one position of one choice.
class NoiseRow {
 public:
  NoiseRow(uint64_t seed, int32_t choice, int32_t position);

  // The token's noise: independent standard Gumbel variables.
  double noise(TokenId token) const;
  // At least the noise of every token of `group`.
  double group_bound(TokenId group) const {
    return negative_ln_bound(group_bits(group)) + kLnNoiseGroup;
  }
  // At least noise(token).
  double bound(TokenId token) const;

 private:
  // SplitMix64's output number `index` from the state `key` (mix64 adds the last increment).
  static uint64_t output(uint64_t key, TokenId index) {
    return mix64(key + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ull);
  }
  uint64_t group_bits(TokenId group) const { return output(group_key_, group); }
  // Which token of the group has the least exponential: from bits that exponential() ignores.
  static bool is_least(uint64_t group_bits, TokenId token) {
    return static_cast<TokenId>(group_bits & (kNoiseGroup - 1)) == token % kNoiseGroup;
  }

  uint64_t token_key_;
  uint64_t group_key_;
};

}  // namespace lineshaft::decoding
