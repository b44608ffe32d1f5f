// Registers of the int8 matrix product: one register's worth of outputs (kLanes) at a time.
//
// Bytes: quants of kLanes outputs x 4 k, as in a packed tile; Ints and Floats: one value an output;
// Dot<bits, digits>: an exact integer dot in the making. To be included by files of cpu/isa only,
// after the rules of f32x16.h. All integer results are exact, so the three bodies agree.
#pragma once

#include "kernels/simd/f32x16.h"

namespace lineshaft::kernels::LS_TARGET {

#if defined(LS_TARGET_AVX512)

namespace {
constexpr int kLanes = 16;
constexpr bool kSignedBytes = false;  // Dot<8> takes quants as stored, offset by 128
struct Floats {
  __m512 v;
};
struct Ints {
  __m512i v;
};
struct Bytes {
  __m512i v;
};
template <int kBits, int kDigits>
struct Dot {
  __m512i digit[kDigits];
};
}  // namespace

LS_INLINE Floats floats_load(const float* p) { return {_mm512_loadu_ps(p)}; }
LS_INLINE void floats_store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
LS_INLINE Floats floats_set(float x) { return {_mm512_set1_ps(x)}; }
LS_INLINE Floats floats_f16(const unsigned char* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
LS_INLINE Floats floats_bf16(const unsigned char* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
LS_INLINE Floats floats_of(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
LS_INLINE Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
LS_INLINE Floats sub(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
LS_INLINE Floats mul(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
LS_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

LS_INLINE Ints ints_set(int32_t x) { return {_mm512_set1_epi32(x)}; }
LS_INLINE Ints ints_u8(const unsigned char* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
LS_INLINE Ints ints_i8(const unsigned char* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
LS_INLINE Ints add(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
LS_INLINE Ints mul(Ints a, Ints b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
LS_INLINE Ints shift_left(Ints a, int bits) { return {_mm512_slli_epi32(a.v, bits)}; }

LS_INLINE Bytes bytes_load(const unsigned char* p) { return {_mm512_loadu_si512(p)}; }
LS_INLINE Bytes bytes_mask(Bytes a, int mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}
LS_INLINE Bytes bytes_or(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
// Shifts in pairs of bytes: bits of the neighbour come in and are to be masked.
LS_INLINE Bytes bytes_left(Bytes a, int bits) { return {_mm512_slli_epi16(a.v, bits)}; }
LS_INLINE Bytes bytes_right(Bytes a, int bits) { return {_mm512_srli_epi16(a.v, bits)}; }
LS_INLINE Ints ints_byte(Bytes four, int i) {
  return {_mm512_and_si512(_mm512_srli_epi32(four.v, 8 * i), _mm512_set1_epi32(255))};
}

template <int kBits, int kDigits>
LS_INLINE Dot<kBits, kDigits> dot_begin(Ints start) {
  Dot<kBits, kDigits> dot;
  dot.digit[0] = _mm512_setzero_si512();
  dot.digit[kDigits - 1] = start.v;
  return dot;
}
LS_INLINE __m512i four_k(const int8_t* x) {
  int32_t four;
  memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}
template <int kBits, int kDigits>
LS_INLINE void dot_add(Dot<kBits, kDigits>& dot, Bytes w0, Bytes w1, const int8_t* x,
                       int /*step*/) {
  for (int d = 0; d < kDigits; ++d) {
    dot.digit[d] = _mm512_dpbusd_epi32(dot.digit[d], w0.v, four_k(x + 32 * d));
  }
  for (int d = 0; d < kDigits; ++d) {
    dot.digit[d] = _mm512_dpbusd_epi32(dot.digit[d], w1.v, four_k(x + 32 * d + 4));
  }
}
template <int kBits, int kDigits>
LS_INLINE Ints dot_end(Dot<kBits, kDigits> dot) {
  if constexpr (kDigits == 1) return {dot.digit[0]};
  return {_mm512_add_epi32(_mm512_slli_epi32(dot.digit[0], 7), dot.digit[kDigits - 1])};
}

template <int kDigits>
LS_INLINE int32_t store_digits(f32x16 a, int8_t* to) {
  const __m512i q = _mm512_cvtps_epi32(a.v);
  if constexpr (kDigits == 1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(q));
  } else {
    const __m512i digit = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(64)), 7);
    const __m512i rest = _mm512_sub_epi32(q, _mm512_slli_epi32(digit, 7));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(digit));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 32), _mm512_cvtepi32_epi8(rest));
  }
  return _mm512_reduce_add_epi32(q);
}

#elif defined(LS_TARGET_AVX2)

namespace {
constexpr int kLanes = 8;
constexpr bool kSignedBytes = true;  // Dot<8> undoes the offset itself
struct Floats {
  __m256 v;
};
struct Ints {
  __m256i v;
};
struct Bytes {
  __m256i v;
};
// vpmaddubsw adds products in pairs of 16 bits; they are widened before they could overflow:
// 4 bits: 8 pairs of 2 x 15 x 127; 5 bits: 4 x (2 x 31 x 127); 6 bits: 2 x (2 x 63 x 127), all
// below 2^15. 8 bits: |w| <= 128 unsigned, the sign moved to x: 2 x 128 x 127 < 2^15, each widened.
// Widening weighs the digits.
template <int kBits, int kDigits>
struct Dot {
  __m256i digit[kDigits];
  __m256i wide;
};
}  // namespace

LS_INLINE Floats floats_load(const float* p) { return {_mm256_loadu_ps(p)}; }
LS_INLINE void floats_store(float* p, Floats a) { _mm256_storeu_ps(p, a.v); }
LS_INLINE Floats floats_set(float x) { return {_mm256_set1_ps(x)}; }
LS_INLINE Floats floats_f16(const unsigned char* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
LS_INLINE Floats floats_bf16(const unsigned char* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}
LS_INLINE Floats floats_of(Ints a) { return {_mm256_cvtepi32_ps(a.v)}; }
LS_INLINE Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
LS_INLINE Floats sub(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
LS_INLINE Floats mul(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
LS_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }

LS_INLINE Ints ints_set(int32_t x) { return {_mm256_set1_epi32(x)}; }
LS_INLINE Ints ints_u8(const unsigned char* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
LS_INLINE Ints ints_i8(const unsigned char* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))};
}
LS_INLINE Ints add(Ints a, Ints b) { return {_mm256_add_epi32(a.v, b.v)}; }
LS_INLINE Ints mul(Ints a, Ints b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
LS_INLINE Ints shift_left(Ints a, int bits) { return {_mm256_slli_epi32(a.v, bits)}; }

LS_INLINE Bytes bytes_load(const unsigned char* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
LS_INLINE Bytes bytes_mask(Bytes a, int mask) {
  return {_mm256_and_si256(a.v, _mm256_set1_epi8(static_cast<char>(mask)))};
}
LS_INLINE Bytes bytes_or(Bytes a, Bytes b) { return {_mm256_or_si256(a.v, b.v)}; }
// Shifts in pairs of bytes: bits of the neighbour come in and are to be masked.
LS_INLINE Bytes bytes_left(Bytes a, int bits) { return {_mm256_slli_epi16(a.v, bits)}; }
LS_INLINE Bytes bytes_right(Bytes a, int bits) { return {_mm256_srli_epi16(a.v, bits)}; }
LS_INLINE Ints ints_byte(Bytes four, int i) {
  return {_mm256_and_si256(_mm256_srli_epi32(four.v, 8 * i), _mm256_set1_epi32(255))};
}

template <int kBits, int kDigits>
LS_INLINE Dot<kBits, kDigits> dot_begin(Ints start) {
  Dot<kBits, kDigits> dot;
  for (int d = 0; d < kDigits; ++d) dot.digit[d] = _mm256_setzero_si256();
  dot.wide = start.v;
  return dot;
}
template <int kDigits>
LS_INLINE __m256i widen(const __m256i* pairs) {
  const __m256i low = _mm256_madd_epi16(pairs[kDigits - 1], _mm256_set1_epi16(1));
  if constexpr (kDigits == 1) return low;
  return _mm256_add_epi32(_mm256_madd_epi16(pairs[0], _mm256_set1_epi16(128)), low);
}
LS_INLINE __m256i four_k(const int8_t* x) {
  int32_t four;
  memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}
LS_INLINE __m256i pairs_of_signed(Bytes w, __m256i x) {
  const __m256i with_sign = _mm256_xor_si256(w.v, _mm256_set1_epi8(static_cast<char>(0x80)));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(with_sign), _mm256_sign_epi8(x, with_sign));
}
// Left alone, GCC 12 computes all products of a block before it adds any, and spills them (4 bits,
// 64 rows: 190 against 250 GOP/s).
LS_INLINE void keep_order(__m256i& sum) { asm("" : "+x"(sum)); }
template <int kDigits>
LS_INLINE void add_signed(__m256i& wide, Bytes w, const int8_t* x) {
  __m256i pairs[kDigits];
  for (int d = 0; d < kDigits; ++d) pairs[d] = pairs_of_signed(w, four_k(x + 32 * d));
  wide = _mm256_add_epi32(wide, widen<kDigits>(pairs));
  keep_order(wide);
}
LS_INLINE void add_pairs(__m256i& narrow, Bytes w0, Bytes w1, const int8_t* x, bool first) {
  const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w0.v, four_k(x)),
                                         _mm256_maddubs_epi16(w1.v, four_k(x + 4)));
  narrow = first ? pairs : _mm256_add_epi16(narrow, pairs);
  keep_order(narrow);
}
// step: 0 … 3 within the 32 k, in order; 6 bits: within the 16 k, 0 and 1.
template <int kBits, int kDigits>
LS_INLINE void dot_add(Dot<kBits, kDigits>& dot, Bytes w0, Bytes w1, const int8_t* x, int step) {
  if constexpr (kBits == 8) {
    add_signed<kDigits>(dot.wide, w0, x);
    add_signed<kDigits>(dot.wide, w1, x + 4);
    return;
  }
  constexpr int kStepsNarrow = kBits == 4 ? 4 : kBits == 5 ? 2 : 1;
  for (int d = 0; d < kDigits; ++d) {
    add_pairs(dot.digit[d], w0, w1, x + 32 * d, step % kStepsNarrow == 0);
  }
  if (step % kStepsNarrow == kStepsNarrow - 1) {
    dot.wide = _mm256_add_epi32(dot.wide, widen<kDigits>(dot.digit));
    keep_order(dot.wide);
  }
}
template <int kBits, int kDigits>
LS_INLINE Ints dot_end(Dot<kBits, kDigits> dot) {
  return {dot.wide};
}

struct Digits {
  __m256i high, low;
};
LS_INLINE Digits digits_of(__m256i q) {
  const __m256i high = _mm256_srai_epi32(_mm256_add_epi32(q, _mm256_set1_epi32(64)), 7);
  return {high, _mm256_sub_epi32(q, _mm256_slli_epi32(high, 7))};
}
LS_INLINE void store_bytes(__m256i a, __m256i b, int8_t* to) {
  const __m256i mixed = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(mixed), _mm256_extracti128_si256(mixed, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
template <int kDigits>
LS_INLINE int32_t store_digits(f32x16 a, int8_t* to) {
  const __m256i q0 = _mm256_cvtps_epi32(a.lo);
  const __m256i q1 = _mm256_cvtps_epi32(a.hi);
  if constexpr (kDigits == 1) {
    store_bytes(q0, q1, to);
  } else {
    const Digits d0 = digits_of(q0);
    const Digits d1 = digits_of(q1);
    store_bytes(d0.high, d1.high, to);
    store_bytes(d0.low, d1.low, to + 32);
  }
  const __m256i eights = _mm256_add_epi32(q0, q1);
  const __m128i fours =
      _mm_add_epi32(_mm256_castsi256_si128(eights), _mm256_extracti128_si256(eights, 1));
  const __m128i twos = _mm_add_epi32(fours, _mm_shuffle_epi32(fours, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(twos, _mm_shuffle_epi32(twos, 0xB1)));
}

#elif defined(LS_TARGET_SCALAR)

namespace {
constexpr int kLanes = 16;
constexpr bool kSignedBytes = false;
struct Floats {
  float v[kLanes];
};
struct Ints {
  int32_t v[kLanes];
};
struct Bytes {
  unsigned char v[4 * kLanes];
};
template <int kBits, int kDigits>
struct Dot {
  int32_t v[kLanes];
};
}  // namespace

// The `expression` of lane i for all lanes of a `type`.
#define LS_EACH(type, expression)                                                          \
  type r;                                                                                  \
  for (int i = 0; i < static_cast<int>(sizeof r.v / sizeof r.v[0]); ++i) r.v[i] = (expression); \
  return r

LS_INLINE uint16_t u16_at(const unsigned char* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}
LS_INLINE Floats floats_load(const float* p) { LS_EACH(Floats, p[i]); }
LS_INLINE void floats_store(float* p, Floats a) { memcpy(p, a.v, sizeof a.v); }
LS_INLINE Floats floats_set(float x) { LS_EACH(Floats, x); }
LS_INLINE Floats floats_f16(const unsigned char* p) {
  LS_EACH(Floats, f16_to_f32(u16_at(p + 2 * i)));
}
LS_INLINE Floats floats_bf16(const unsigned char* p) {
  LS_EACH(Floats, bf16_to_f32(u16_at(p + 2 * i)));
}
LS_INLINE Floats floats_of(Ints a) { LS_EACH(Floats, static_cast<float>(a.v[i])); }
LS_INLINE Floats add(Floats a, Floats b) { LS_EACH(Floats, a.v[i] + b.v[i]); }
LS_INLINE Floats sub(Floats a, Floats b) { LS_EACH(Floats, a.v[i] - b.v[i]); }
LS_INLINE Floats mul(Floats a, Floats b) { LS_EACH(Floats, a.v[i] * b.v[i]); }
LS_INLINE Floats fma(Floats a, Floats b, Floats c) {
  LS_EACH(Floats, __builtin_fmaf(a.v[i], b.v[i], c.v[i]));
}

LS_INLINE Ints ints_set(int32_t x) { LS_EACH(Ints, x); }
LS_INLINE Ints ints_u8(const unsigned char* p) { LS_EACH(Ints, p[i]); }
LS_INLINE Ints ints_i8(const unsigned char* p) { LS_EACH(Ints, static_cast<int8_t>(p[i])); }
LS_INLINE Ints add(Ints a, Ints b) { LS_EACH(Ints, a.v[i] + b.v[i]); }
LS_INLINE Ints mul(Ints a, Ints b) { LS_EACH(Ints, a.v[i] * b.v[i]); }
LS_INLINE Ints shift_left(Ints a, int bits) { LS_EACH(Ints, a.v[i] * (1 << bits)); }

LS_INLINE Bytes bytes_load(const unsigned char* p) { LS_EACH(Bytes, p[i]); }
LS_INLINE Bytes bytes_mask(Bytes a, int mask) {
  LS_EACH(Bytes, static_cast<unsigned char>(a.v[i] & mask));
}
LS_INLINE Bytes bytes_or(Bytes a, Bytes b) {
  LS_EACH(Bytes, static_cast<unsigned char>(a.v[i] | b.v[i]));
}
LS_INLINE Bytes bytes_left(Bytes a, int bits) {
  LS_EACH(Bytes, static_cast<unsigned char>(a.v[i] << bits));
}
LS_INLINE Bytes bytes_right(Bytes a, int bits) {
  LS_EACH(Bytes, static_cast<unsigned char>(a.v[i] >> bits));
}
LS_INLINE Ints ints_byte(Bytes four, int byte) { LS_EACH(Ints, four.v[4 * i + byte]); }

template <int kBits, int kDigits>
LS_INLINE Dot<kBits, kDigits> dot_begin(Ints start) {
  Dot<kBits, kDigits> r;
  memcpy(r.v, start.v, sizeof r.v);
  return r;
}
template <int kDigits>
LS_INLINE int32_t value_of(const int8_t* x) {
  return kDigits == 1 ? x[0] : 128 * x[0] + x[32];
}
template <int kBits, int kDigits>
LS_INLINE void dot_add(Dot<kBits, kDigits>& dot, const Bytes& w0, const Bytes& w1, const int8_t* x,
                       int) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < 4; ++j) {
      dot.v[i] += w0.v[4 * i + j] * value_of<kDigits>(x + j) +
                  w1.v[4 * i + j] * value_of<kDigits>(x + 4 + j);
    }
  }
}
template <int kBits, int kDigits>
LS_INLINE Ints dot_end(Dot<kBits, kDigits> dot) {
  LS_EACH(Ints, dot.v[i]);
}

#undef LS_EACH

template <int kDigits>
LS_INLINE int32_t store_digits(f32x16 a, int8_t* to) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    // Adding and taking away 1.5 * 2^23 rounds to the nearest even integer.
    const auto q = static_cast<int32_t>((a.v[i] + 12582912.0f) - 12582912.0f);
    const int32_t high = kDigits == 1 ? q : (q + 64) >> 7;
    to[i] = static_cast<int8_t>(high);
    if (kDigits == 2) to[32 + i] = static_cast<int8_t>(q - 128 * high);
    sum += q;
  }
  return sum;
}

#endif

// What each operation means, for all bodies:
//   dot_begin(start), dot_add(dot, w0, w1, x, step), dot_end(dot): start plus, for each step of
//     8 k, the dots of w0 with the first four activations at x and of w1 with the next four; quants
//     unsigned; x in digits as in QuantisedBlock, the second digits 32 bytes behind the first
//   store_digits(a, to)   16 values within the digits' range, rounded to nearest even, as digits;
//     their sum
//   ints_byte(four, i)   byte i of each output's four

}  // namespace lineshaft::kernels::LS_TARGET
