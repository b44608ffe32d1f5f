// At stake: sampled answers must follow the model's distribution exactly as filtered, and be a
// function of prompt, parameters and seed alone.
#include "decoding/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/rng.h"
#include "decoding/gumbel.h"

namespace lineshaft::decoding {
namespace {

const TokenCounts kNoCounts;

const kernels::Kernels& best_kernels() { return kernels::kernels_for(kernels::best_isa()); }

std::vector<float> random_row(uint64_t seed, int n, double spread) {
  const RngKey key(seed);
  std::vector<float> row(n);
  for (int i = 0; i < n; ++i) {
    row[i] = static_cast<float>((static_cast<double>(key.bits(i) >> 11) * 0x1p-53 - 0.5) * spread);
  }
  return row;
}

// Probabilities by the definition, in double: zero for what is dropped.
std::vector<double> exact(const std::vector<float>& row, const SamplingParams& p) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
  if (p.top_k > 0 && p.top_k < static_cast<int>(order.size())) order.resize(p.top_k);
  const auto mass = [&](int t) {
    return std::exp((static_cast<double>(row[t]) - row[order[0]]) / p.temperature);
  };
  double total = 0;
  for (const int t : order) total += mass(t);
  std::vector<double> out(row.size(), 0.0);
  double sum = 0;
  double kept = 0;
  for (const int t : order) {
    if (sum >= p.top_p * total) break;
    sum += mass(t);
    if (mass(t) < p.min_p) continue;
    out[t] = mass(t);
    kept += mass(t);
  }
  for (double& x : out) x /= kept;
  return out;
}

// Chi-square of draws over positions against `probability`, as a normal deviate
// (Wilson-Hilferty). Fails at once when a dropped token is drawn.
double deviate(const std::vector<float>& row, const SamplingParams& p, int draws) {
  Sampler sampler(best_kernels(), static_cast<int32_t>(row.size()));
  std::vector<int> count(row.size());
  for (int i = 0; i < draws; ++i) ++count[sampler.sample(row, p, kNoCounts, 0, i).value()];
  const auto probability = exact(row, p);
  double chi = 0;
  int cells = 0;
  double rare_expected = 0;
  double rare_count = 0;
  for (size_t t = 0; t < row.size(); ++t) {
    if (probability[t] == 0.0) {
      EXPECT_EQ(count[t], 0) << "dropped token " << t << " was drawn";
      continue;
    }
    const double expected = probability[t] * draws;
    if (expected < 10) {
      rare_expected += expected;
      rare_count += count[t];
      continue;
    }
    chi += (count[t] - expected) * (count[t] - expected) / expected;
    ++cells;
  }
  if (rare_expected >= 5) {
    chi += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
    ++cells;
  }
  const double freedom = cells - 1;
  return (std::cbrt(chi / freedom) - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom));
}

TEST(Sampler, DrawsFollowTheDistribution) {
  struct Case {
    float temperature;
    int top_k;
    float top_p;
    float min_p;
  };
  const Case cases[] = {{1.0f, 0, 1.0f, 0.0f},   {0.5f, 0, 1.0f, 0.0f},  {2.5f, 0, 1.0f, 0.0f},
                        {1.0f, 10, 1.0f, 0.0f},  {1.0f, 0, 0.8f, 0.0f},  {1.0f, 0, 1.0f, 0.1f},
                        {0.8f, 20, 0.9f, 0.05f}, {1.5f, 40, 0.7f, 0.0f}, {0.7f, 0, 0.95f, 0.02f}};
  int number = 0;
  for (const Case& c : cases) {
    SamplingParams p;
    p.temperature = c.temperature;
    p.top_k = c.top_k;
    p.top_p = c.top_p;
    p.min_p = c.min_p;
    p.seed = 1000 + number;
    const double z = deviate(random_row(number, 200, 8.0), p, 40'000);
    EXPECT_LT(std::abs(z), 4.0) << "case " << number;
    ++number;
  }
}

TEST(Sampler, ChoicesAndSeedsDrawIndependently) {
  // Two choices (or two seeds) over the same positions: the joint counts must be the product.
  const std::vector<float> row = {0.0f, 1.0f, 2.0f};
  Sampler sampler(best_kernels(), 3);
  const auto probability = exact(row, {});
  for (const bool choices : {true, false}) {
    constexpr int kDraws = 40'000;
    int joint[3][3] = {};
    for (int i = 0; i < kDraws; ++i) {
      SamplingParams a;
      SamplingParams b;
      a.seed = 5;
      b.seed = choices ? 5 : 6;
      ++joint[*sampler.sample(row, a, kNoCounts, 0, i)]
             [*sampler.sample(row, b, kNoCounts, choices ? 1 : 0, i)];
    }
    double chi = 0;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        const double expected = kDraws * probability[i] * probability[j];
        chi += (joint[i][j] - expected) * (joint[i][j] - expected) / expected;
      }
    }
    EXPECT_LT(chi, 26.1);  // 8 degrees of freedom, level 0.001
  }
}

TEST(Sampler, LazyDrawEqualsTheFullArgmax) {
  // The bound on the noise must never change the winner.
  Sampler sampler(best_kernels(), 5000);
  for (int i = 0; i < 300; ++i) {
    const auto row = random_row(100 + i, 5000, 0.5 + i * 0.2);
    SamplingParams p;
    p.seed = i;
    p.temperature = 0.3f + 0.01f * static_cast<float>(i);
    const float factor = 1.0f / p.temperature;
    const float highest = *std::max_element(row.begin(), row.end());
    const NoiseRow noise(p.seed, 2, i);
    TokenId best = -1;
    double best_score = -std::numeric_limits<double>::infinity();
    for (TokenId t = 0; t < 5000; ++t) {
      const double score = (row[t] - highest) * factor + noise.noise(t);
      if (score > best_score) {
        best_score = score;
        best = t;
      }
    }
    ASSERT_EQ(sampler.sample(row, p, kNoCounts, 2, i), best) << i;
  }
}

TEST(Sampler, FiltersDoNotChangeTheWinnerAmongKeptTokens) {
  // Noise belongs to the token, not to its place in a list: when the winner is kept, it wins.
  Sampler sampler(best_kernels(), 1000);
  int kept = 0;
  for (int i = 0; i < 200; ++i) {
    const auto row = random_row(i, 1000, 12.0);
    SamplingParams open;
    open.seed = i;
    SamplingParams cut = open;
    cut.top_k = 300;
    cut.top_p = 0.9f;
    const TokenId winner = *sampler.sample(row, open, kNoCounts, 0, i);
    const TokenId filtered = *sampler.sample(row, cut, kNoCounts, 0, i);
    if (exact(row, cut)[winner] > 0) {
      EXPECT_EQ(winner, filtered);
      ++kept;
    }
  }
  EXPECT_GT(kept, 100);
  EXPECT_LT(kept, 200);
}

TEST(Sampler, GreedyTakesTheHighestWithTiesToTheLowerId) {
  Sampler sampler(best_kernels(), 100);
  std::vector<float> row(100, 0.0f);
  row[70] = row[33] = 5.0f;
  for (const float temperature : {0.0f, 1e-6f}) {
    SamplingParams p;
    p.temperature = temperature;
    EXPECT_EQ(sampler.sample(row, p, kNoCounts, 0, 0), 33);
    p.logit_bias = {{33, -1.0f}};
    EXPECT_EQ(sampler.sample(row, p, kNoCounts, 0, 0), 70);
    p.logit_bias = {{12, 100.0f}};
    EXPECT_EQ(sampler.sample(row, p, kNoCounts, 0, 0), 12);
  }
}

TEST(Sampler, PenaltiesReachTheChoice) {
  Sampler sampler(best_kernels(), 4);
  const std::vector<float> row = {3.0f, 2.0f, 1.0f, 0.0f};
  TokenCounts counts;
  counts.add_answered(0);
  SamplingParams p;
  p.temperature = 0.0f;
  p.presence_penalty = 1.5f;
  EXPECT_EQ(sampler.sample(row, p, counts, 0, 1), 1);
  EXPECT_EQ(row[0], 3.0f);  // the caller's row is left alone
}

TEST(Sampler, RowsWithoutAFiniteBestGiveNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Sampler sampler(best_kernels(), 64);
  for (const float value : {nan, inf, -inf}) {
    const std::vector<float> row(64, value);
    for (const float temperature : {0.0f, 1.0f}) {
      SamplingParams p;
      p.temperature = temperature;
      EXPECT_EQ(sampler.sample(row, p, kNoCounts, 0, 0), std::nullopt);
      p.top_p = 0.5f;
      p.top_k = 3;
      EXPECT_EQ(sampler.sample(row, p, kNoCounts, 0, 0), std::nullopt);
    }
  }
  std::vector<float> some(64, nan);
  some[9] = 1.0f;
  EXPECT_EQ(sampler.sample(some, {}, kNoCounts, 0, 0), 9);
}

TEST(Sampler, OneTokenVocabulary) {
  Sampler sampler(best_kernels(), 1);
  SamplingParams p;
  p.top_p = 0.3f;
  p.top_k = 5;
  EXPECT_EQ(sampler.sample(std::vector<float>{-4.0f}, p, kNoCounts, 0, 0), 0);
}

}  // namespace
}  // namespace lineshaft::decoding
