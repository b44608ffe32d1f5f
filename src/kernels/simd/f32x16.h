// f32x16: sixteen virtual lanes of f32, the same on every instruction set, bit for bit.
//
// One AVX-512 register, two AVX2 registers or an array. Only operations whose result IEEE 754 fixes
// are here, so the three bodies agree in every bit (NaN payloads aside). To be included by files of
// cpu/isa only, which define LS_TARGET (the namespace) and LS_TARGET_SCALAR, _AVX2 or _AVX512.
// Everything is local to the including file: a symbol that the linker could share between
// instruction sets might be the copy that this CPU cannot run. Hence no std templates here.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(LS_TARGET_AVX512) || defined(LS_TARGET_AVX2)
#include <immintrin.h>
#else
#include "kernels/formats/formats.h"
#endif

#define LS_INLINE static inline __attribute__((always_inline))

namespace lineshaft::kernels::LS_TARGET {
namespace {

struct BF16 {
  uint16_t bits;
};

}  // namespace

#if defined(LS_TARGET_AVX512)

namespace {
struct f32x16 {
  __m512 v;
};
struct Mask16 {
  __mmask16 m;
};
}  // namespace

LS_INLINE f32x16 set(float x) { return {_mm512_set1_ps(x)}; }
LS_INLINE f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
LS_INLINE void store(float* p, f32x16 a) { _mm512_storeu_ps(p, a.v); }
LS_INLINE Mask16 lanes(int begin, int end) {
  return {static_cast<__mmask16>((1u << end) - (1u << begin))};
}
LS_INLINE f32x16 load_first(const float* p, int n) {
  return {_mm512_maskz_loadu_ps(lanes(0, n).m, p)};
}
LS_INLINE void store_first(float* p, f32x16 a, int n) {
  _mm512_mask_storeu_ps(p, lanes(0, n).m, a.v);
}
LS_INLINE f32x16 load(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
LS_INLINE f32x16 load(const BF16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
LS_INLINE f32x16 load(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
LS_INLINE void store_f16(uint16_t* p, f32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
LS_INLINE f32x16 add(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
LS_INLINE f32x16 sub(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
LS_INLINE f32x16 mul(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
LS_INLINE f32x16 div(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
LS_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
LS_INLINE f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
LS_INLINE f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
LS_INLINE Mask16 less(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
LS_INLINE f32x16 select(Mask16 m, f32x16 a, f32x16 b) {
  return {_mm512_mask_blend_ps(m.m, b.v, a.v)};
}
LS_INLINE f32x16 add_exponent(f32x16 a, f32x16 shifted) {
  const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), n))};
}
LS_INLINE f32x16 swap_pairs(f32x16 a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
LS_INLINE f32x16 negate_even(f32x16 a) {
  const __m512i sign = _mm512_set1_epi64(0x80000000);
  return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), sign))};
}
LS_INLINE f32x16 load_8_twice(const float* p) {
  const __m512i index = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return {_mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
}
LS_INLINE __m256 high_half(f32x16 a) { return _mm512_extractf32x8_ps(a.v, 1); }
LS_INLINE __m256 low_half(f32x16 a) { return _mm512_castps512_ps256(a.v); }

#elif defined(LS_TARGET_AVX2)

namespace {
struct f32x16 {
  __m256 lo, hi;
};
struct Mask16 {
  __m256 lo, hi;
};
}  // namespace

LS_INLINE f32x16 set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
LS_INLINE f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
LS_INLINE void store(float* p, f32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
LS_INLINE __m256 bits_to_lanes(uint32_t bits) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i all = _mm256_set1_epi32(static_cast<int>(bits));
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, bit), bit));
}
LS_INLINE Mask16 lanes(int begin, int end) {
  const uint32_t bits = (1u << end) - (1u << begin);
  return {bits_to_lanes(bits), bits_to_lanes(bits >> 8)};
}
LS_INLINE f32x16 load_first(const float* p, int n) {
  const Mask16 m = lanes(0, n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
LS_INLINE void store_first(float* p, f32x16 a, int n) {
  const Mask16 m = lanes(0, n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}
LS_INLINE f32x16 load(const uint16_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
LS_INLINE __m256 load_half(const BF16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
LS_INLINE f32x16 load(const BF16* p) { return {load_half(p), load_half(p + 8)}; }
LS_INLINE __m256 load_half(const int8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}
LS_INLINE f32x16 load(const int8_t* p) { return {load_half(p), load_half(p + 8)}; }
LS_INLINE void store_f16(uint16_t* p, f32x16 a) {
  __m128i* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
LS_INLINE f32x16 add(f32x16 a, f32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
LS_INLINE f32x16 sub(f32x16 a, f32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
LS_INLINE f32x16 mul(f32x16 a, f32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
LS_INLINE f32x16 div(f32x16 a, f32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
LS_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
LS_INLINE f32x16 max(f32x16 a, f32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
LS_INLINE f32x16 min(f32x16 a, f32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
LS_INLINE Mask16 less(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
LS_INLINE f32x16 select(Mask16 m, f32x16 a, f32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, m.lo), _mm256_blendv_ps(b.hi, a.hi, m.hi)};
}
LS_INLINE __m256 add_exponent_half(__m256 a, __m256 shifted) {
  const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), n));
}
LS_INLINE f32x16 add_exponent(f32x16 a, f32x16 shifted) {
  return {add_exponent_half(a.lo, shifted.lo), add_exponent_half(a.hi, shifted.hi)};
}
LS_INLINE f32x16 swap_pairs(f32x16 a) {
  return {_mm256_permute_ps(a.lo, 0xB1), _mm256_permute_ps(a.hi, 0xB1)};
}
LS_INLINE f32x16 negate_even(f32x16 a) {
  const __m256 sign = _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000));
  return {_mm256_xor_ps(a.lo, sign), _mm256_xor_ps(a.hi, sign)};
}
LS_INLINE f32x16 load_8_twice(const float* p) {
  const __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const __m256i high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
  const __m256 v = _mm256_loadu_ps(p);
  return {_mm256_permutevar8x32_ps(v, low), _mm256_permutevar8x32_ps(v, high)};
}
LS_INLINE __m256 high_half(f32x16 a) { return a.hi; }
LS_INLINE __m256 low_half(f32x16 a) { return a.lo; }

#elif defined(LS_TARGET_SCALAR)

namespace {
struct f32x16 {
  float v[16];
};
struct Mask16 {
  uint32_t bits;
};
}  // namespace

// Applies `expression` of lane i to the sixteen lanes of a result r.
#define LS_EACH(expression)                           \
  f32x16 r;                                           \
  for (int i = 0; i < 16; ++i) r.v[i] = (expression); \
  return r

LS_INLINE f32x16 set(float x) { LS_EACH(x); }
LS_INLINE f32x16 load(const float* p) { LS_EACH(p[i]); }
LS_INLINE void store(float* p, f32x16 a) { memcpy(p, a.v, sizeof a.v); }
LS_INLINE Mask16 lanes(int begin, int end) { return {(1u << end) - (1u << begin)}; }
LS_INLINE f32x16 load_first(const float* p, int n) { LS_EACH(i < n ? p[i] : 0.0f); }
LS_INLINE void store_first(float* p, f32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
LS_INLINE f32x16 load(const uint16_t* p) { LS_EACH(f16_to_f32(p[i])); }
LS_INLINE f32x16 load(const BF16* p) { LS_EACH(bf16_to_f32(p[i].bits)); }
LS_INLINE f32x16 load(const int8_t* p) { LS_EACH(static_cast<float>(p[i])); }
LS_INLINE void store_f16(uint16_t* p, f32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]);
}
LS_INLINE f32x16 add(f32x16 a, f32x16 b) { LS_EACH(a.v[i] + b.v[i]); }
LS_INLINE f32x16 sub(f32x16 a, f32x16 b) { LS_EACH(a.v[i] - b.v[i]); }
LS_INLINE f32x16 mul(f32x16 a, f32x16 b) { LS_EACH(a.v[i] * b.v[i]); }
LS_INLINE f32x16 div(f32x16 a, f32x16 b) { LS_EACH(a.v[i] / b.v[i]); }
LS_INLINE f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  LS_EACH(__builtin_fmaf(a.v[i], b.v[i], c.v[i]));
}
LS_INLINE f32x16 max(f32x16 a, f32x16 b) { LS_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
LS_INLINE f32x16 min(f32x16 a, f32x16 b) { LS_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
LS_INLINE Mask16 less(f32x16 a, f32x16 b) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(a.v[i] < b.v[i]) << i;
  return {bits};
}
LS_INLINE f32x16 select(Mask16 m, f32x16 a, f32x16 b) {
  LS_EACH((m.bits >> i & 1) != 0 ? a.v[i] : b.v[i]);
}
LS_INLINE f32x16 add_exponent(f32x16 a, f32x16 shifted) {
  uint32_t bits[16], n[16];
  memcpy(bits, a.v, sizeof bits);
  memcpy(n, shifted.v, sizeof n);
  for (int i = 0; i < 16; ++i) bits[i] += n[i] << 23;
  memcpy(a.v, bits, sizeof bits);
  return a;
}
LS_INLINE f32x16 swap_pairs(f32x16 a) { LS_EACH(a.v[i ^ 1]); }
LS_INLINE f32x16 negate_even(f32x16 a) { LS_EACH((i & 1) != 0 ? a.v[i] : -a.v[i]); }
LS_INLINE f32x16 load_8_twice(const float* p) { LS_EACH(p[i / 2]); }

#undef LS_EACH
#endif

// What each operation means, for all bodies:
//   load(const uint16_t*)   sixteen f16, exactly;  store_f16: rounded to nearest even
//   load(const BF16*), load(const int8_t*)   sixteen values, exactly
//   lanes(begin, end)       lanes i with begin <= i < end; 0 <= begin <= end <= 16
//   load_first(p, n)        p[0 .. n) in lanes below n, +0 above; reads nothing beyond
//   max(a, b), min(a, b)    a > b ? a : b and a < b ? a : b: b when either is NaN
//   select(m, a, b)         a in the lanes of m, else b
//   add_exponent(a, t)      a * 2^n where t = 1.5 * 2^23 + n, by adding n to a's exponent bits
//   swap_pairs              lanes 1 0 3 2 …;  negate_even: sign changed in lanes 0, 2, …
//   load_8_twice(p)         p[0] p[0] p[1] p[1] … p[7] p[7]

// The tree: lane j with j + 8, then + 4, + 2, + 1.
#if defined(LS_TARGET_SCALAR)
LS_INLINE float sum(f32x16 a) {
  for (int step = 8; step > 0; step /= 2) {
    for (int j = 0; j < step; ++j) a.v[j] = a.v[j] + a.v[j + step];
  }
  return a.v[0];
}
LS_INLINE float largest(f32x16 a) {
  for (int step = 8; step > 0; step /= 2) {
    for (int j = 0; j < step; ++j) a.v[j] = a.v[j] > a.v[j + step] ? a.v[j] : a.v[j + step];
  }
  return a.v[0];
}
#else
LS_INLINE float sum(f32x16 a) {
  const __m256 s8 = _mm256_add_ps(low_half(a), high_half(a));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
LS_INLINE float largest(f32x16 a) {
  const __m256 s8 = _mm256_max_ps(low_half(a), high_half(a));
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}
#endif

}  // namespace lineshaft::kernels::LS_TARGET
