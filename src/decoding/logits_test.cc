// At stake: a filter that keeps one token too many or too few changes what a user's parameters
// mean; a result that depends on the order of additions changes between machines.
#include "decoding/logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/rng.h"

namespace lineshaft::decoding {
namespace {

const kernels::Kernels& best_kernels() { return kernels::kernels_for(kernels::best_isa()); }

std::vector<float> random_row(uint64_t seed, int n, double spread) {
  const RngKey key(seed);
  std::vector<float> row(n);
  for (int i = 0; i < n; ++i) {
    row[i] = static_cast<float>((static_cast<double>(key.bits(i) >> 11) * 0x1p-53 - 0.5) * spread);
  }
  return row;
}

std::set<TokenId> ids(std::span<const Candidate> candidates) {
  std::set<TokenId> out;
  for (const auto& c : candidates) out.insert(c.token);
  return out;
}

// The definition, in double, with a full sort.
std::set<TokenId> expected_set(const std::vector<float>& row, const SamplingParams& p) {
  std::vector<TokenId> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return row[a] > row[b]; });
  if (p.top_k > 0 && p.top_k < static_cast<int>(order.size())) order.resize(p.top_k);
  const auto mass = [&](TokenId t) {
    return std::exp((static_cast<double>(row[t]) - row[order[0]]) / p.temperature);
  };
  double total = 0;
  for (const TokenId t : order) total += mass(t);
  std::set<TokenId> out;
  double sum = 0;
  for (const TokenId t : order) {
    if (p.top_p < 1.0f && !out.empty() && sum >= p.top_p * (1.0 - 1e-6) * total) break;
    sum += mass(t);
    if (mass(t) >= p.min_p) out.insert(t);
  }
  return out;
}

std::set<TokenId> kept(const std::vector<float>& row, const SamplingParams& p) {
  CandidateFilter filter(best_kernels(), static_cast<int32_t>(row.size()));
  return ids(filter.filter(row, *std::max_element(row.begin(), row.end()), p));
}

TEST(Logits, FilterKeepsWhatTheDefinitionKeeps) {
  const RngKey key(11);
  int checked = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    const int n = 2 + static_cast<int>(key.below(10 * i, 3000));
    const auto row = random_row(i, n, 0.5 + static_cast<double>(key.below(10 * i + 1, 40)));
    SamplingParams p;
    p.temperature = 0.2f + 0.1f * static_cast<float>(key.below(10 * i + 2, 15));
    if (i % 2) p.top_k = 1 + static_cast<int>(key.below(10 * i + 3, n));
    if (i % 4 != 1) p.top_p = 0.05f + 0.03f * static_cast<float>(key.below(10 * i + 4, 31));
    if (i % 3 == 0) p.min_p = 0.01f * static_cast<float>(1 + key.below(10 * i + 5, 30));
    if (!CandidateFilter::needed(p, n)) continue;
    const auto expected = expected_set(row, p);
    const auto got = kept(row, p);
    // A token at the very border may fall to either side, by rounding of the total in float.
    std::vector<TokenId> differ;
    std::set_symmetric_difference(expected.begin(), expected.end(), got.begin(), got.end(),
                                  std::back_inserter(differ));
    EXPECT_LE(differ.size(), 1u) << "row " << i << " n " << n;
    if (differ.empty()) ++checked;
  }
  EXPECT_GT(checked, 280);  // equality is the rule
}

TEST(Logits, TopKTiesGoToTheLowerId) {
  const std::vector<float> row = {1, 3, 3, 2, 3, 3, 0};
  SamplingParams p;
  p.top_k = 2;
  EXPECT_EQ(kept(row, p), (std::set<TokenId>{1, 2}));
  p.top_k = 5;
  EXPECT_EQ(kept(row, p), (std::set<TokenId>{1, 2, 3, 4, 5}));
  std::vector<Candidate> out;
  select_top_k(std::vector<float>(100, 1.0f), 0.0f, 1.0f, 3, out);
  EXPECT_EQ(ids(out), (std::set<TokenId>{0, 1, 2}));
}

TEST(Logits, TopPOfEqualTokensTakesTheLowestIds) {
  const std::vector<float> row(10, 0.25f);
  for (int tenths = 1; tenths <= 9; ++tenths) {
    SamplingParams p;
    p.top_p = static_cast<float>(tenths) / 10.0f;
    const auto got = kept(row, p);
    EXPECT_EQ(static_cast<int>(got.size()), tenths);
    EXPECT_EQ(*got.rbegin(), tenths - 1);
  }
}

TEST(Logits, TopPOfFlatLargeRowKeepsItsShare) {
  SamplingParams p;
  p.top_p = 0.5f;
  const auto got = kept(std::vector<float>(50'000, -3.0f), p);
  EXPECT_NEAR(static_cast<double>(got.size()), 25'000, 2);
  EXPECT_EQ(*got.rbegin() + 1, static_cast<int>(got.size()));
}

TEST(Logits, BestTokenIsAlwaysKept) {
  const auto row = random_row(5, 1000, 20);
  const auto best = static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
  SamplingParams p;
  p.top_p = 1e-30f;
  p.min_p = 1.0f;
  EXPECT_EQ(kept(row, p), std::set<TokenId>{best});
}

TEST(Logits, NaNIsNotChosenAmongTheBestAndMinusInfinityNeverMatters) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<Candidate> out;
  select_top_k(std::vector<float>{nan, 1, nan, -inf, 2}, 2.0f, 1.0f, 4, out);
  EXPECT_EQ(ids(out), (std::set<TokenId>{1, 3, 4}));
  SamplingParams p;
  p.top_p = 0.9f;
  EXPECT_EQ(kept({-inf, 1.0f, -inf, 1.0f}, p), (std::set<TokenId>{1, 3}));
  CandidateFilter filter(best_kernels(), 4);
  EXPECT_TRUE(filter.filter(std::vector<float>{nan, 1, 1, 1}, 1.0f, p).empty());
}

TEST(Logits, SameBitsOnEveryInstructionSet) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto row = random_row(seed, 4999, 25);
    const float highest = *std::max_element(row.begin(), row.end());
    SamplingParams p;
    p.top_p = 0.85f;
    p.temperature = 1.3f;
    std::set<TokenId> reference;
    for (const auto isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
      if (!kernels::cpu_has(isa)) continue;
      CandidateFilter filter(kernels::kernels_for(isa), 4999);
      const auto got = ids(filter.filter(row, highest, p));
      if (reference.empty()) reference = got;
      EXPECT_EQ(got, reference);
    }
  }
}

TEST(Logits, AdjustmentsByHand) {
  // Prompt: 0 0 1; answer: 1 2 2. bias on 3; repetition 2; presence 0.5; frequency 0.25.
  TokenCounts counts;
  counts.add_prompt(std::vector<TokenId>{0, 0, 1});
  for (const TokenId t : {1, 2, 2}) counts.add_answered(t);
  SamplingParams p;
  p.repetition_penalty = 2.0f;
  p.presence_penalty = 0.5f;
  p.frequency_penalty = 0.25f;
  p.logit_bias = {{1, 1.0f}, {3, -7.0f}, {99, 5.0f}};
  std::vector<float> row = {4, 3, -1, 8, 1};
  adjust_logits(p, counts, row);
  EXPECT_EQ(row, (std::vector<float>{4 / 2.0f,                   // prompt only: no presence
                                     (3 + 1) / 2.0f - 0.75f,     // bias before the division
                                     -1 * 2.0f - 0.5f - 0.5f,    // negative: multiplied
                                     1, 1}));                    // bias; untouched
}

TEST(Logits, CountsAreIndependentOfOrder) {
  TokenCounts first;
  first.add_answered(7);
  first.add_prompt(std::vector<TokenId>{9, 7, 3, 9});
  first.add_answered(7);
  ASSERT_EQ(first.entries().size(), 3u);
  EXPECT_EQ(first.entries()[0].token, 3);
  EXPECT_EQ(first.entries()[1].token, 7);
  EXPECT_EQ(first.entries()[1].answered, 2);
  EXPECT_EQ(first.entries()[2].answered, 0);
}

}  // namespace
}  // namespace lineshaft::decoding
