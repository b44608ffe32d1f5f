// Activations of one row → int8 blocks (backend.h states the numbers). Included by cpu/isa files.
#pragma once

#include "kernels/backend.h"
#include "kernels/simd/int8_dot.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

// Below this the factor could overflow; no activation that matters is so small.
constexpr float kAmaxMin = 1e-30f;

template <int kDigits>
void quantise_block(f32x16 first, f32x16 second, QuantisedBlock<kDigits>* to) {
  constexpr float kActivationMax = kDigits == 1 ? 127.0f : 16319.0f;
  const f32x16 zero = set(0.0f);
  // The order of arguments drops NaN: max gives its second argument then.
  f32x16 magnitude = max(max(first, sub(zero, first)), zero);
  magnitude = max(max(second, sub(zero, second)), magnitude);
  const float amax = largest(magnitude);
  const bool empty = amax < kAmaxMin;
  const f32x16 factor = set(empty ? 0.0f : kActivationMax / amax);
  const f32x16 bound = set(kActivationMax);
  const f32x16 floor = set(-kActivationMax);
  // Clamping matters for infinite or NaN activations of broken models only.
  const int32_t sum_low =
      store_digits<kDigits>(min(max(mul(first, factor), floor), bound), to->digits[0]);
  const int32_t sum_high =
      store_digits<kDigits>(min(max(mul(second, factor), floor), bound), to->digits[0] + 16);
  to->scale = empty ? 0.0f : amax / kActivationMax;
  to->sum = to->scale * static_cast<float>(sum_low + sum_high);
  to->neg_sum = -(sum_low + sum_high);
  to->neg_sum_low = -sum_low;
}

template <int kDigits>
void quantise_row(const float* x, int64_t k, QuantisedBlock<kDigits>* out) {
  for (int64_t b = 0; b < k / 32; ++b) {
    quantise_block(load(x + 32 * b), load(x + 32 * b + 16), out + b);
  }
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
