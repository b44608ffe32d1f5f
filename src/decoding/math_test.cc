// At stake: the law of every sampled token rests on these two functions.
#include "decoding/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace lineshaft::decoding {
namespace {

TEST(Math, LogarithmAgreesWithLibm) {
  const RngKey key(1);
  for (uint64_t i = 0; i < 100'000; ++i) {
    const double x = std::ldexp(1.0 + static_cast<double>(key.bits(i) >> 12) * 0x1p-52,
                                static_cast<int>(key.below(~i, 120)) - 60);
    EXPECT_NEAR(ln(x), std::log(x), 4e-16 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(ln(1.0), 0.0);
}

TEST(Math, ExponentialAgreesWithLibm) {
  const RngKey key(2);
  for (uint64_t i = 0; i < 100'000; ++i) {
    const double x = (static_cast<double>(key.bits(i) >> 11) * 0x1p-53 - 0.5) * 1400.0;
    const double value = exp(i % 2 ? x : x * 0.01);
    const double expected = std::exp(i % 2 ? x : x * 0.01);
    ASSERT_NEAR(value / expected, 1.0, 1e-12) << x;
  }
  EXPECT_EQ(exp(0.0), 1.0);
}

}  // namespace
}  // namespace lineshaft::decoding
