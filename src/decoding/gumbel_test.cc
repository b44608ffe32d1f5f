// At stake: noise with the wrong law skews every sampled answer; a bound that lies drops tokens.
#include "decoding/gumbel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lineshaft::decoding {
namespace {

TEST(Gumbel, EqualsTheDefinitionWhereLibmIsPrecise) {
  const RngKey key(2);
  for (uint64_t i = 0; i < 100'000; ++i) {
    const uint64_t bits = key.bits(i) >> (i % 50);
    const double w = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
    const double expected = -std::log(-std::log1p(-w));
    EXPECT_NEAR(gumbel(bits), expected, 1e-14 * std::max(1.0, std::abs(expected))) << bits;
  }
}

TEST(Gumbel, BoundsHold) {
  EXPECT_LE(gumbel(0), kGumbelMax);
  EXPECT_GE(gumbel(~0ull), kGumbelMin);
  EXPECT_GT(gumbel(0), kGumbelMax - 0.001);
  EXPECT_LT(gumbel(~0ull), kGumbelMin + 0.001);
  for (int zeros = 0; zeros <= 64; ++zeros) {
    // The least and the greatest bits with this many leading zeros.
    const uint64_t least = zeros == 64 ? 0 : 1ull << (63 - zeros);
    const uint64_t greatest = zeros == 64 ? 0 : least | (least - 1);
    for (const uint64_t bits : {least, greatest}) {
      EXPECT_LE(gumbel(bits), gumbel_bound(bits)) << bits;
    }
  }
  const RngKey key(3);
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    const uint64_t bits = key.bits(i);
    ASSERT_LE(gumbel(bits), gumbel_bound(bits)) << bits;
  }
}

TEST(Gumbel, NoiseFollowsTheGumbelLaw) {
  // Kolmogorov-Smirnov against exp(-exp(-x)); tokens of one position, then positions of one token.
  constexpr int kCount = 100'000;
  for (const bool over_tokens : {true, false}) {
    std::vector<double> draws;
    for (int i = 0; i < kCount; ++i) {
      draws.push_back(over_tokens ? NoiseRow(7, 0, 3).noise(i) : NoiseRow(7, 0, i).noise(5));
    }
    std::sort(draws.begin(), draws.end());
    double distance = 0.0;
    for (int i = 0; i < kCount; ++i) {
      const double law = std::exp(-std::exp(-draws[i]));
      distance = std::max({distance, std::abs(law - static_cast<double>(i) / kCount),
                           std::abs(law - static_cast<double>(i + 1) / kCount)});
    }
    EXPECT_LT(distance, 1.95 / std::sqrt(kCount)) << over_tokens;  // level 0.001
  }
}

TEST(Gumbel, KeyNamesTheNoise) {
  const auto bits = [](uint64_t seed, int choice, int position, TokenId token) {
    return NoiseRow(seed, choice, position).bits(token);
  };
  EXPECT_EQ(bits(1, 2, 3, 4), bits(1, 2, 3, 4));
  EXPECT_NE(bits(1, 2, 3, 4), bits(2, 2, 3, 4));
  EXPECT_NE(bits(1, 2, 3, 4), bits(1, 3, 3, 4));
  EXPECT_NE(bits(1, 2, 3, 4), bits(1, 2, 4, 4));
  EXPECT_NE(bits(1, 2, 3, 4), bits(1, 2, 3, 5));
  EXPECT_NE(bits(1, 2, 3, 4), bits(1, 3, 2, 4));  // choice and position aren't mixed up
}

}  // namespace
}  // namespace lineshaft::decoding
