// What happens to a row of logits before a token is chosen, in the order of SamplingParams:
// logit bias, repetition, presence and frequency penalties; then temperature, top-k, top-p, min-p.
//
// Works on one row and knows no batch. Equal arguments give equal bits on every machine. Must not
// choose a token (sampler.h) and must not call libm.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/request.h"
#include "kernels/backend.h"

namespace lineshaft::decoding {

// The tokens that a sequence has, as penalties need them. Sorted by id; add_* are O(distinct).
class TokenCounts {
 public:
  struct Entry {
    TokenId token;
    int32_t answered;  // occurrences in the answer; 0: in the prompt only
  };

  void reserve(int64_t distinct) { entries_.reserve(static_cast<size_t>(distinct)); }
  void add_prompt(std::span<const TokenId> tokens);
  void add_answered(TokenId token);
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// Whether `params` penalise tokens, that is, whether TokenCounts are needed.
bool has_penalties(const SamplingParams& params);
// Whether adjust_logits would change anything.
bool has_adjustments(const SamplingParams& params);

// Applies bias and penalties to `logits` ([vocab]) in place. Ids outside the row are ignored.
void adjust_logits(const SamplingParams& params, const TokenCounts& counts,
                   std::span<float> logits);

// A token that may be chosen. z = (logit - highest logit) / temperature, so the best has 0.
struct Candidate {
  float z;
  TokenId token;
};
// Descending z, ties to the lower id: a total order.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.z != b.z ? a.z > b.z : a.token < b.token;
}

// The k best of `values` with z = (value - shift) * factor, factor > 0, in no particular order;
// NaN is never among them. out's capacity should be 2 k. Cost: one pass and O(k log n).
void select_top_k(std::span<const float> values, float shift, float factor, int64_t k,
                  std::vector<Candidate>& out);

// Shrinks `candidates` to the smallest set of the best whose masses add up to `mass`; all stay
// when they do not, and the best always does. Masses are integers, so no order of additions can
// matter. Cost: linear, and a sort of the tokens that lie close to the border.
void keep_mass(std::vector<Candidate>& candidates, uint64_t mass);
// floor(e^z * 2^40), z <= 0.
uint64_t mass_of(float z);

// What stays after top-k, top-p and min-p. Reuse one object for many rows: it keeps its memory.
class CandidateFilter {
 public:
  CandidateFilter(const kernels::Kernels& kernels, int32_t vocab);

  // Whether a list of candidates is needed at all: top-k or top-p cut something. min-p alone is a
  // bound on z (min_p_floor).
  static bool needed(const SamplingParams& params, int64_t vocab);

  // `highest` is the row's largest value and finite; temperature > 0. Empty when the row's sum is
  // not finite (NaN among the logits). Valid until the next call.
  std::span<const Candidate> filter(std::span<const float> logits, float highest,
                                    const SamplingParams& params);

 private:
  // top-p over the whole row; false when the sum is not finite.
  bool nucleus_of_row(std::span<const float> logits, float highest, float factor, float top_p);

  const kernels::Kernels& kernels_;
  std::vector<float> z_;
  std::vector<Candidate> candidates_;
};

// The lowest z that min-p keeps: ln(min_p), -infinity when min_p is 0.
float min_p_floor(float min_p);
// 1 / temperature.
float temperature_factor(const SamplingParams& params);
// Below this temperature the highest logit is taken.
inline constexpr float kGreedyTemperature = 1e-5f;

}  // namespace lineshaft::decoding
