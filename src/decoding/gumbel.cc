#include "decoding/gumbel.h"

namespace lineshaft::decoding {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

// 2 atanh(s) = ln((1 + s) / (1 - s)) for |s| <= 0.172: the first term left out is
// 2 s^21 / 21 < 1e-17.
double two_atanh(double s) {
  const double q = s * s;
  double sum = 1.0 / 19;
  sum = sum * q + 1.0 / 17;
  sum = sum * q + 1.0 / 15;
  sum = sum * q + 1.0 / 13;
  sum = sum * q + 1.0 / 11;
  sum = sum * q + 1.0 / 9;
  sum = sum * q + 1.0 / 7;
  sum = sum * q + 1.0 / 5;
  sum = sum * q + 1.0 / 3;
  sum = sum * q + 1.0;
  return 2.0 * s * sum;
}

}  // namespace

double ln(double x) {
  constexpr uint64_t kMantissa = (1ull << 52) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | (1023ull << 52));  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  return exponent * kLn2 + two_atanh((m - 1.0) / (m + 1.0));
}

double gumbel(uint64_t bits) {
  // w = 1 - u, in [2^-53, 1 - 2^-53], exact. The noise that wins comes from small w: the
  // exponential variable -ln(1 - w) is taken by a form that keeps its relative precision there.
  const double w = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  const double exponential = w < 0.25 ? two_atanh(w / (2.0 - w)) : -ln(1.0 - w);
  return -ln(exponential);
}

}  // namespace lineshaft::decoding
