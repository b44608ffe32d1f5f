#include "decoding/math.h"

#include <bit>
#include <cstdint>

namespace lineshaft::decoding {
namespace {

constexpr double kLn2 = 0.693147180559945309417;

}  // namespace

// The first term left out is 2 s^21 / 21 < 1e-17.
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

double exp(double x) {
  // x = k ln 2 + r with |r| <= ln 2 / 2; the first term left out is r^11 / 11! < 3e-13.
  const double scaled = x * 1.44269504088896340736;
  const auto k = static_cast<int64_t>(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
  const double r = x - static_cast<double>(k) * kLn2;
  double sum = 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
}

}  // namespace lineshaft::decoding
