#include "decoding/gumbel.h"

#include <algorithm>

#include "decoding/math.h"

namespace lineshaft::decoding {

double exponential(uint64_t bits) {
  // -ln(1 - w) with w uniform in [2^-53, 1 - 2^-53], exact. What wins comes from small w: there
  // a form is used that keeps the relative precision.
  const double w = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  return w < 0.25 ? two_atanh(w / (2.0 - w)) : -ln(1.0 - w);
}

NoiseRow::NoiseRow(uint64_t seed, int32_t choice, int32_t position) {
  const RngKey key = RngKey(seed)
                         .split(static_cast<uint64_t>(choice))
                         .split(static_cast<uint64_t>(position));
  token_key_ = key.split(0).value();
  group_key_ = key.split(1).value();
}

double NoiseRow::noise(TokenId token) const {
  const uint64_t group = group_bits(token / kNoiseGroup);
  const double least = exponential(group) * (1.0 / kNoiseGroup);
  return is_least(group, token) ? -ln(least)
                                : -ln(least + exponential(output(token_key_, token)));
}

double NoiseRow::bound(TokenId token) const {
  const uint64_t group = group_bits(token / kNoiseGroup);
  const double of_least = negative_ln_bound(group) + kLnNoiseGroup;
  return is_least(group, token)
             ? of_least
             : std::min(of_least, negative_ln_bound(output(token_key_, token)));
}

}  // namespace lineshaft::decoding
