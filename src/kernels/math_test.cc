// What is at stake: the functions that replace libm are right to a stated error, and one value at a
// time gives the bits of sixteen at once on every instruction set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/backend.h"

namespace lineshaft::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the exact value.
double ulps(float value, double exact) {
  const float rounded = static_cast<float>(exact);
  const double unit = std::nextafter(std::fabs(rounded), kInf) - std::fabs(rounded);
  return std::fabs(static_cast<double>(value) - exact) / unit;
}

TEST(Exp, IsWithinTwoUlpOverItsWholeRange) {
  double worst = 0.0;
  for (int i = 0; i <= 2'000'000; ++i) {
    const float x = -87.33654f + static_cast<float>(i) * (176.05f / 2'000'000);
    if (x >= 88.72283f) break;
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LE(worst, 2.0);
  RecordProperty("worst_ulp_x1000", static_cast<int>(worst * 1000));
}

TEST(Exp, EndsAreExact) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-kInf), 0.0f);
  EXPECT_EQ(exp_f32(-1e30f), 0.0f);
  EXPECT_EQ(exp_f32(-87.4f), 0.0f);
  EXPECT_GE(exp_f32(-87.3365402f), std::numeric_limits<float>::min());
  EXPECT_LT(exp_f32(88.7228317f), kInf);
  EXPECT_EQ(exp_f32(88.7228394f), kInf);
  EXPECT_EQ(exp_f32(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
  EXPECT_TRUE(std::isnan(exp_f32(std::bit_cast<float>(0x7fc0ffffu))));
}

TEST(Log, IsWithinOneUlpForAllMagnitudes) {
  const RngKey key(11);
  for (uint64_t i = 0; i < 200'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(key.below(i, 0x7f800000)));
    if (x == 0.0f) continue;
    ASSERT_LE(ulps(log_f32(x), std::log(static_cast<double>(x))), 1.0) << x;
  }
  EXPECT_EQ(log_f32(1.0f), 0.0f);
  EXPECT_EQ(log_f32(0.0f), -kInf);
  EXPECT_EQ(log_f32(kInf), kInf);
  EXPECT_TRUE(std::isnan(log_f32(-1.0f)));
  EXPECT_TRUE(std::isnan(log_f32(kNan)));
}

TEST(RopeInvFreq, IsThePowerToDoublePrecision) {
  for (const double base : {10000.0, 100000.0, 500000.0, 1000000.0, 10.5}) {
    for (const int32_t dims : {2, 64, 80, 128, 256}) {
      std::vector<double> out(static_cast<size_t>(dims) / 2);
      rope_inv_freq(base, dims, out);
      EXPECT_EQ(out[0], 1.0);
      for (int32_t i = 0; i < dims / 2; ++i) {
        const long double exact = powl(static_cast<long double>(base), -2.0L * i / dims);
        const double error = static_cast<double>((out[static_cast<size_t>(i)] - exact) / exact);
        ASSERT_LE(std::fabs(error), 1.2e-16) << base << " " << dims << " " << i;
      }
    }
  }
}

TEST(RopeAngles, AreRightUpToAMillionPositions) {
  std::vector<double> inv_freq(64);
  rope_inv_freq(10000.0, 128, inv_freq);
  std::vector<float> cosine(64), sine(64);
  for (const int32_t position : {0, 1, 2, 3, 511, 8191, 131071, 999'999}) {
    for (const double scale : {1.0, 0.125}) {
      rope_angles(position, inv_freq, scale, cosine.data(), sine.data());
      for (size_t i = 0; i < inv_freq.size(); ++i) {
        const double angle = position * scale * inv_freq[i];
        ASSERT_NEAR(cosine[i], std::cos(angle), 6.1e-8) << position << " " << i;
        ASSERT_NEAR(sine[i], std::sin(angle), 6.1e-8) << position << " " << i;
      }
    }
  }
  rope_angles(0, inv_freq, 1.0, cosine.data(), sine.data());
  EXPECT_THAT(cosine, testing::Each(1.0f));
  EXPECT_THAT(sine, testing::Each(0.0f));
}

}  // namespace
}  // namespace lineshaft::kernels
