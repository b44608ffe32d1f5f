// Norms, activations, RoPE, KV stores and reductions over one row: the bodies for one target.
// Contracts and orders of addition: backend.h. For cpu/table_body.h only.
#pragma once

#include "kernels/backend.h"
#include "kernels/simd/exp.h"
#include "kernels/simd/f32x16.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* out) {
  f32x16 squares = set(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) squares = fma(load(x + i), load(x + i), squares);
  const int tail = static_cast<int>(n - i);
  // The missing lanes add 0 * 0 to sums that are no negative zero: nothing changes.
  const f32x16 last = load_first(x + i, tail);
  squares = fma(last, last, squares);
  const float mean = sum(squares) / static_cast<float>(n);
  const f32x16 factor = set(1.0f / __builtin_sqrtf(mean + epsilon));
  for (i = 0; i + 16 <= n; i += 16) {
    store(out + i, mul(mul(load(x + i), factor), load(weight + i)));
  }
  store_first(out + i, mul(mul(last, factor), load_first(weight + i, tail)), tail);
}

void add_rows(float* x, const float* y, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(x + i, add(load(x + i), load(y + i)));
  for (; i < n; ++i) x[i] = x[i] + y[i];
}

void scale_row(float* x, float factor, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(x + i, mul(load(x + i), set(factor)));
  for (; i < n; ++i) x[i] = x[i] * factor;
}

LS_INLINE f32x16 silu(f32x16 x) {
  return div(x, add(set(1.0f), exp(sub(set(0.0f), x))));
}

// x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3) is x / (1 + e^(-2 u)).
LS_INLINE f32x16 gelu_tanh(f32x16 x) {
  const f32x16 cubic = fma(mul(mul(x, x), x), set(0.044715f), x);
  return div(x, add(set(1.0f), exp(mul(cubic, set(-1.59576912f)))));  // -2 sqrt(2 / pi)
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, mul(silu(load(gate + i)), load(up + i)));
  const int tail = static_cast<int>(n - i);
  store_first(out + i, mul(silu(load_first(gate + i, tail)), load_first(up + i, tail)), tail);
}

void gelu_tanh_mul(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, mul(gelu_tanh(load(gate + i)), load(up + i)));
  const int tail = static_cast<int>(n - i);
  store_first(out + i, mul(gelu_tanh(load_first(gate + i, tail)), load_first(up + i, tail)), tail);
}

// Pairs (x[2 i], x[2 i + 1]) of one head; n pairs.
void rope_interleaved(float* x, int32_t n, const float* cos, const float* sin) {
  int32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const f32x16 v = load(x + 2 * i);
    const f32x16 turned = negate_even(mul(swap_pairs(v), load_8_twice(sin + i)));
    store(x + 2 * i, fma(v, load_8_twice(cos + i), turned));
  }
  for (; i < n; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    x[2 * i + 1] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

// Pairs (x[i], x[i + n]) of one head; n pairs.
void rope_halves(float* x, int32_t n, const float* cos, const float* sin) {
  int32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x16 a = load(x + i), b = load(x + n + i);
    const f32x16 c = load(cos + i), s = load(sin + i);
    store(x + i, fma(a, c, sub(set(-0.0f), mul(b, s))));
    store(x + n + i, fma(b, c, mul(a, s)));
  }
  for (; i < n; ++i) {
    const float a = x[i], b = x[n + i];
    x[i] = __builtin_fmaf(a, cos[i], -(b * sin[i]));
    x[n + i] = __builtin_fmaf(b, cos[i], a * sin[i]);
  }
}

void rope(float* x, int32_t heads, int32_t head_dim, int32_t rope_dims, bool interleaved,
          const float* cos, const float* sin) {
  for (int32_t h = 0; h < heads; ++h) {
    float* head = x + static_cast<int64_t>(h) * head_dim;
    if (interleaved) {
      rope_interleaved(head, rope_dims / 2, cos, sin);
    } else {
      rope_halves(head, rope_dims / 2, cos, sin);
    }
  }
}

// store_rounded: sixteen values as elements of a KV type; `factor` is for int8 only.
LS_INLINE void store_rounded(float* p, f32x16 a, float) { store(p, a); }
LS_INLINE void store_rounded(uint16_t* p, f32x16 a, float) { store_f16(p, a); }
LS_INLINE void store_rounded(BF16* p, f32x16 a, float) {
  float values[16];
  uint32_t bits[16];
  store(values, a);
  memcpy(bits, values, sizeof bits);
  for (int i = 0; i < 16; ++i) {
    const bool nan = (bits[i] & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = nan ? bits[i] | 0x400000u : bits[i] + 0x7fffu + (bits[i] >> 16 & 1u);
    p[i].bits = static_cast<uint16_t>(rounded >> 16);
  }
}
// Adding 1.5 * 2^23 rounds to an integer, nearest even, and leaves it in the low bits.
LS_INLINE void store_rounded(int8_t* p, f32x16 a, float factor) {
  float shifted[16];
  uint32_t bits[16];
  store(shifted, add(mul(a, set(factor)), set(0x1.8p23f)));
  memcpy(bits, shifted, sizeof bits);
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(bits[i]);
}

// What a row is multiplied with before it is rounded, and what an element stands for.
struct RowScale {
  float factor;
  float scale;
};

// A row that is not of numbers gets the scale NaN: it must not turn into numbers.
LS_INLINE RowScale row_scale(const float* x, int32_t n) {
  f32x16 amax = set(0.0f), zeros = set(0.0f);
  for (int32_t i = 0; i < n; i += 16) {
    const f32x16 v = load(x + i);
    amax = max(max(v, sub(set(0.0f), v)), amax);
    zeros = fma(v, set(0.0f), zeros);
  }
  const float a = largest(amax);
  if (!(sum(zeros) == 0.0f)) return {0.0f, __builtin_nanf("")};
  if (a < 1e-30f) return {0.0f, 0.0f};
  return {127.0f / a, a / 127.0f};
}

template <typename Element>
void store_kv_as(const AttentionShape& shape, std::byte* block, int32_t slot, const float* k,
                 const float* v) {
  const int64_t head_elements = static_cast<int64_t>(shape.block_tokens) * shape.head_dim;
  Element* part = reinterpret_cast<Element*>(block + shape.layer_offset);
  Element* values = part + shape.kv_heads * head_elements;
  float* scales = reinterpret_cast<float*>(values + shape.kv_heads * head_elements);
  float* value_scales = scales + int64_t{shape.kv_heads} * shape.block_tokens * key_scales(shape);
  RowScale k_scale = {}, v_scale = {};
  for (int32_t h = 0; h < shape.kv_heads; ++h) {
    Element* keys = part + h * head_elements + slot / 16 * 16 * shape.head_dim + slot % 16;
    Element* row = values + h * head_elements + static_cast<int64_t>(slot) * shape.head_dim;
    float* key_row = scales + (h * shape.block_tokens + slot / 16 * 16) * key_scales(shape);
    if constexpr (sizeof(Element) == 1) {
      v_scale = row_scale(v, shape.head_dim);
      value_scales[h * shape.block_tokens + slot] = v_scale.scale;
    }
    for (int32_t d = 0; d < shape.head_dim; d += 16) {
      if (sizeof(Element) == 1 && d % kKeyScaleDims == 0) {
        const int32_t left = shape.head_dim - d;
        k_scale = row_scale(k + d, left < kKeyScaleDims ? left : kKeyScaleDims);
        key_row[d / kKeyScaleDims * 16 + slot % 16] = k_scale.scale;
      }
      Element sixteen[16];
      store_rounded(sixteen, load(k + d), k_scale.factor);
      for (int32_t i = 0; i < 16; ++i) keys[(d + i) * 16] = sixteen[i];
      store_rounded(row + d, load(v + d), v_scale.factor);
    }
    k += shape.head_dim;
    v += shape.head_dim;
  }
}

void store_kv(const AttentionShape& shape, std::byte* block, int32_t slot, const float* k,
              const float* v) {
  switch (shape.kv_type) {
    case KvType::kF32: return store_kv_as<float>(shape, block, slot, k, v);
    case KvType::kF16: return store_kv_as<uint16_t>(shape, block, slot, k, v);
    case KvType::kBF16: return store_kv_as<BF16>(shape, block, slot, k, v);
    case KvType::kQ8: return store_kv_as<int8_t>(shape, block, slot, k, v);
  }
}

// The largest of n values, NaN ignored; -inf when there is none.
float largest_of(const float* x, int64_t n) {
  const f32x16 lowest = set(-__builtin_inff());
  f32x16 best[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) best[j] = max(load(x + i + 16 * j), best[j]);
  }
  for (; i + 16 <= n; i += 16) best[0] = max(load(x + i), best[0]);
  const int tail = static_cast<int>(n - i);
  best[0] = max(select(lanes(0, tail), load_first(x + i, tail), lowest), best[0]);
  return largest(max(max(best[0], best[1]), max(best[2], best[3])));
}

float log_sum_exp(const float* x, int64_t n) {
  const float highest = largest_of(x, n);
  if (!(highest > -__builtin_inff() && highest < __builtin_inff())) return highest;
  f32x16 total = set(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) total = add(total, exp(sub(load(x + i), set(highest))));
  const int tail = static_cast<int>(n - i);
  const f32x16 last = exp(sub(load_first(x + i, tail), set(highest)));
  total = add(total, select(lanes(0, tail), last, set(0.0f)));
  return highest + log_f32(sum(total));
}

int64_t argmax(const float* x, int64_t n) {
  const float highest = largest_of(x, n);
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] == highest) return i;
  }
  return 0;  // all NaN
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
