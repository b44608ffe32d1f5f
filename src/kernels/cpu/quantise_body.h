// Activations of one row → int8 blocks (backend.h states the numbers). Included by cpu/isa files.
#pragma once

#include "kernels/backend.h"
#include "kernels/simd/int8_dot.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

// Below this 127 / amax could overflow; no activation that matters is so small.
constexpr float kAmaxMin = 1e-30f;

struct RowPart {
  f32x16 low, high;
};

// 32 activations; gives back what the int8 form leaves of them: x - scale * q.
LS_INLINE RowPart quantise_block(RowPart x, QuantisedBlock* to) {
  const f32x16 zero = set(0.0f);
  // The order of arguments drops NaN: max gives its second argument then.
  f32x16 magnitude = max(max(x.low, sub(zero, x.low)), zero);
  magnitude = max(max(x.high, sub(zero, x.high)), magnitude);
  const float amax = largest(magnitude);
  const bool empty = amax < kAmaxMin;
  const f32x16 factor = set(empty ? 0.0f : 127.0f / amax);
  const f32x16 bound = set(127.0f);
  const f32x16 floor = set(-127.0f);
  // Clamping matters for infinite or NaN activations of broken models only.
  const f32x16 low = min(max(mul(x.low, factor), floor), bound);
  const f32x16 high = min(max(mul(x.high, factor), floor), bound);
  int32_t sum_low, sum_high;
  store_q8(low, high, to->q, &sum_low, &sum_high);
  to->scale = empty ? 0.0f : amax / 127.0f;
  to->sum = to->scale * static_cast<float>(sum_low + sum_high);
  to->neg_sum = -(sum_low + sum_high);
  to->neg_sum_low = -sum_low;
  // Adding and taking away 1.5 * 2^23 rounds half to even, as store_q8 does.
  const f32x16 magic = set(12582912.0f);
  const f32x16 scale = set(to->scale);
  return {sub(x.low, mul(sub(add(low, magic), magic), scale)),
          sub(x.high, mul(sub(add(high, magic), magic), scale))};
}

void quantise_row(const float* x, int64_t k, QuantisedBlock* out) {
  for (int64_t b = 0; b < k / 32; ++b) {
    quantise_block({load(x + 32 * b), load(x + 32 * b + 16)}, out + b);
  }
}

void quantise_row_fine(const float* x, int64_t k, QuantisedBlock* coarse, QuantisedBlock* rest) {
  for (int64_t b = 0; b < k / 32; ++b) {
    const RowPart left = quantise_block({load(x + 32 * b), load(x + 32 * b + 16)}, coarse + b);
    quantise_block(left, rest + b);
  }
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
