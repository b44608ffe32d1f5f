// At stake: noise with the wrong law skews every sampled answer; a bound that lies drops tokens.
#include "decoding/gumbel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lineshaft::decoding {
namespace {

TEST(Gumbel, ExponentialEqualsTheDefinitionWhereLibmIsPrecise) {
  const RngKey key(2);
  for (uint64_t i = 0; i < 100'000; ++i) {
    const uint64_t bits = key.bits(i) >> (i % 50);
    const double w = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
    ASSERT_NEAR(exponential(bits) / -std::log1p(-w), 1.0, 1e-14) << bits;
  }
}

TEST(Gumbel, BoundOfTheLogarithmHolds) {
  for (int zeros = 0; zeros <= 64; ++zeros) {
    // The least and the greatest bits with this many leading zeros.
    const uint64_t least = zeros == 64 ? 0 : 1ull << (63 - zeros);
    const uint64_t greatest = zeros == 64 ? 0 : least | (least - 1);
    for (const uint64_t bits : {least, greatest}) {
      EXPECT_LE(-std::log(exponential(bits)), negative_ln_bound(bits)) << bits;
    }
  }
  EXPECT_LE(-std::log(exponential(0) / kNoiseGroup), kGumbelMax);
  EXPECT_GT(-std::log(exponential(0) / kNoiseGroup), kGumbelMax - 0.01);
}

TEST(Gumbel, BoundsOfTokensAndGroupsHold) {
  for (int position = 0; position < 20; ++position) {
    const NoiseRow row(3, 1, position);
    for (TokenId token = 0; token < 50'000; ++token) {
      const double noise = row.noise(token);
      ASSERT_LE(noise, row.bound(token));
      ASSERT_LE(noise, row.group_bound(token / kNoiseGroup));
      ASSERT_LE(row.bound(token), kGumbelMax + 1.0);
    }
  }
}

// Kolmogorov-Smirnov distance of draws from exp(-exp(-x)), in units of its 0.001 level.
double distance_from_law(std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  const auto count = static_cast<double>(draws.size());
  double distance = 0.0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double law = std::exp(-std::exp(-draws[i]));
    distance = std::max({distance, std::abs(law - static_cast<double>(i) / count),
                         std::abs(law - static_cast<double>(i + 1) / count)});
  }
  return distance / (1.95 / std::sqrt(count));
}

TEST(Gumbel, NoiseFollowsTheGumbelLaw) {
  constexpr int kCount = 100'000;
  std::vector<double> tokens;
  std::vector<double> positions;
  std::vector<double> least_of_group;  // the largest noise of 64, shifted back: Gumbel too
  for (int i = 0; i < kCount; ++i) {
    tokens.push_back(NoiseRow(7, 0, 3).noise(i));
    positions.push_back(NoiseRow(7, 0, i).noise(5));
    if (i % 10 != 0) continue;
    double largest = -100.0;
    for (TokenId t = 64; t < 128; ++t) largest = std::max(largest, NoiseRow(8, 0, i).noise(t));
    least_of_group.push_back(largest - std::log(64.0));
  }
  EXPECT_LT(distance_from_law(tokens), 1.0);
  EXPECT_LT(distance_from_law(positions), 1.0);
  EXPECT_LT(distance_from_law(least_of_group), 1.0);
}

TEST(Gumbel, NoiseInAGroupIsIndependent) {
  // Pairs of tokens, of one group and of two: the joint counts of quartiles must be flat. The
  // quartiles of exp(-noise) are those of an exponential.
  const auto quartile = [](double noise) {
    return std::min(3, static_cast<int>(4.0 * (1.0 - std::exp(-std::exp(-noise)))));
  };
  for (const auto& [a, b] : {std::pair{3, 4}, {0, 63}, {70, 71}, {63, 64}}) {
    constexpr int kDraws = 40'000;
    int joint[4][4] = {};
    for (int i = 0; i < kDraws; ++i) {
      const NoiseRow row(11, 0, i);
      ++joint[quartile(row.noise(a))][quartile(row.noise(b))];
    }
    double chi = 0.0;
    for (const auto& line : joint) {
      for (const int count : line) chi += std::pow(count - kDraws / 16.0, 2) / (kDraws / 16.0);
    }
    EXPECT_LT(chi, 37.7) << a << " " << b;  // 15 degrees of freedom, level 0.001
  }
}

TEST(Gumbel, KeyNamesTheNoise) {
  const auto noise = [](uint64_t seed, int choice, int position, TokenId token) {
    return NoiseRow(seed, choice, position).noise(token);
  };
  EXPECT_EQ(noise(1, 2, 3, 4), noise(1, 2, 3, 4));
  EXPECT_NE(noise(1, 2, 3, 4), noise(2, 2, 3, 4));
  EXPECT_NE(noise(1, 2, 3, 4), noise(1, 3, 3, 4));
  EXPECT_NE(noise(1, 2, 3, 4), noise(1, 2, 4, 4));
  EXPECT_NE(noise(1, 2, 3, 4), noise(1, 2, 3, 5));
  EXPECT_NE(noise(1, 2, 3, 4), noise(1, 3, 2, 4));  // choice and position aren't mixed up
}

}  // namespace
}  // namespace lineshaft::decoding
