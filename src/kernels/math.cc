// One-value functions in f32 and the RoPE tables, all by our own series: no libm decides a bit.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/backend.h"
#include "kernels/simd/exp_constants.h"

namespace lineshaft::kernels {
namespace {

// Binary128 in software: exact enough that rounding to double gives half an ulp. For tables only.
__extension__ typedef __float128 Quad;

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn2Rest = 2.319046813846299558e-17;  // ln 2 - kLn2

// ln x for finite normal x > 0, by x = 2^e m, m in [sqrt 1/2, sqrt 2), and
// ln m = 2 (s + s^3 / 3 + s^5 / 5 + …) with s = (m - 1) / (m + 1), |s| < 0.1716.
template <typename Number>
Number ln(double x, int terms, Number ln2) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent += 1;
  }
  const Number s = (Number(m) - 1) / (Number(m) + 1);
  const Number square = s * s;
  Number series = 0;
  for (int i = terms - 1; i >= 0; --i) series = series * square + Number(1) / Number(2 * i + 1);
  return Number(exponent) * ln2 + 2 * s * series;
}

// e^x for |x| < 700, by x = n ln 2 + r and the Taylor series of e^r.
Quad exp_quad(Quad x, Quad ln2) {
  const int n = static_cast<int>(x / ln2 + (x < 0 ? Quad(-0.5) : Quad(0.5)));
  const Quad r = x - Quad(n) * ln2;
  Quad series = 1;
  for (int i = 30; i >= 1; --i) series = 1 + series * r / Quad(i);
  return series * Quad(std::bit_cast<double>(static_cast<uint64_t>(1023 + n) << 52));
}

// sin and cos for |x| <= pi / 4 by their Taylor series; the next terms are below 1e-19.
double sin_series(double x) {
  const double z = x * x;
  double sum = 0.0;
  for (int i = 17; i >= 3; i -= 2) sum = (1.0 - sum) * z / static_cast<double>(i * (i - 1));
  return x - x * sum;
}
double cos_series(double x) {
  const double z = x * x;
  double sum = 0.0;
  for (int i = 18; i >= 2; i -= 2) sum = (1.0 - sum) * z / static_cast<double>(i * (i - 1));
  return 1.0 - sum;
}

// Cody and Waite: pi / 2 in parts of 33 bits, so that n times the first two is exact for n < 2^20.
constexpr double kHalfPi1 = 0x1.921fb544p+0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kTwoOverPi = 0.63661977236758138;

void sin_cos(double angle, double* sine, double* cosine) {
  const double magic = 0x1.8p52;  // rounds to the nearest integer
  const double n = (angle * kTwoOverPi + magic) - magic;
  const double r = ((angle - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double s = sin_series(r), c = cos_series(r);
  switch (static_cast<int64_t>(n) & 3) {
    case 0: *sine = s; *cosine = c; break;
    case 1: *sine = c; *cosine = -s; break;
    case 2: *sine = -s; *cosine = -c; break;
    default: *sine = -c; *cosine = s; break;
  }
}

}  // namespace

float exp_f32(float x) {
  if (x < kExpUnderflow) return 0.0f;
  if (!(x < kExpOverflow)) return x + std::numeric_limits<float>::infinity();
  const float t = std::fmaf(x, kExpLog2e, kExpMagic);
  const float n = t - kExpMagic;
  const float r = std::fmaf(n, -kExpLn2Low, std::fmaf(n, -kExpLn2High, x));
  float p = std::fmaf(kExpC6, r, kExpC5);
  p = std::fmaf(p, r, kExpC4);
  p = std::fmaf(p, r, kExpC3);
  p = std::fmaf(p, r, kExpC2);
  p = std::fmaf(p, r, 1.0f);
  p = std::fmaf(p, r, 1.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(t) << 23));
}

float log_f32(float x) {
  if (x == 0.0f) return -std::numeric_limits<float>::infinity();
  if (!(x > 0.0f)) return std::numeric_limits<float>::quiet_NaN();
  if (x == std::numeric_limits<float>::infinity()) return x;
  return static_cast<float>(ln<double>(x, 12, kLn2));
}

void rope_angles(int32_t position, std::span<const double> inv_freq, double position_scale,
                 float* cos, float* sin) {
  const double scaled = static_cast<double>(position) * position_scale;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    double sine = 0.0, cosine = 0.0;
    sin_cos(scaled * inv_freq[i], &sine, &cosine);
    cos[i] = static_cast<float>(cosine);
    sin[i] = static_cast<float>(sine);
  }
}

void rope_inv_freq(double base, int32_t rope_dims, std::span<double> out) {
  const Quad ln2 = Quad(kLn2) + Quad(kLn2Rest);
  const Quad ln_base = ln<Quad>(base, 24, ln2);
  for (int32_t i = 0; i < rope_dims / 2; ++i) {
    const Quad exponent = Quad(-2 * i) * ln_base / Quad(rope_dims);
    out[static_cast<size_t>(i)] = static_cast<double>(exp_quad(exponent, ln2));
  }
}

}  // namespace lineshaft::kernels
