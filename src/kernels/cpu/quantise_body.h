// Activations of one row → int8 blocks (backend.h states the numbers). Included by cpu/isa files.
#pragma once

#include "kernels/backend.h"
#include "kernels/simd/int8_dot.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

// Below this 127 / amax could overflow; no activation that matters is so small.
constexpr float kAmaxMin = 1e-30f;

void quantise_row(const float* x, int64_t k, QuantisedBlock* out) {
  const f32x16 zero = set(0.0f);
  for (int64_t b = 0; b < k / 32; ++b) {
    const f32x16 low = load(x + 32 * b);
    const f32x16 high = load(x + 32 * b + 16);
    // The order of arguments drops NaN: max gives its second argument then.
    f32x16 magnitude = max(max(low, sub(zero, low)), zero);
    magnitude = max(max(high, sub(zero, high)), magnitude);
    const float amax = largest(magnitude);
    const bool empty = amax < kAmaxMin;
    const f32x16 factor = set(empty ? 0.0f : 127.0f / amax);
    const f32x16 bound = set(127.0f);
    const f32x16 floor = set(-127.0f);
    // Clamping matters for infinite or NaN activations of broken models only.
    const f32x16 scaled_low = min(max(mul(low, factor), floor), bound);
    const f32x16 scaled_high = min(max(mul(high, factor), floor), bound);
    int32_t sum_low, sum_high;
    QuantisedBlock& to = out[b];
    store_q8(scaled_low, scaled_high, to.q, &sum_low, &sum_high);
    to.scale = empty ? 0.0f : amax / 127.0f;
    to.sum = to.scale * static_cast<float>(sum_low + sum_high);
    to.neg_sum = -(sum_low + sum_high);
    to.neg_sum_low = -sum_low;
  }
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
