#include "decoding/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "decoding/gumbel.h"

namespace lineshaft::decoding {
namespace {

// The best score so far; a score is z + noise in double.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  TokenId token = -1;

  // Most tokens can't win with the leading zeros of their bits: no logarithm is computed for them.
  void offer(double z, TokenId candidate, const NoiseRow& noise) {
    const uint64_t bits = noise.bits(candidate);
    if (z + gumbel_bound(bits) < score) return;
    const double other = z + gumbel(bits);
    if (other > score || (other == score && candidate < token)) {
      score = other;
      token = candidate;
    }
  }
};

TokenId draw(std::span<const Candidate> candidates, const NoiseRow& noise) {
  Best best;
  for (const Candidate& c : candidates) best.offer(c.z, c.token, noise);
  return best.token;
}

// Draws from the whole row (min-p cuts at `floor`). The highest logit goes first: tokens far below
// its score can't win whatever their noise.
TokenId draw_from_row(std::span<const float> logits, TokenId highest, float factor, float floor,
                      const NoiseRow& noise) {
  const float shift = logits[static_cast<size_t>(highest)];
  Best best;
  best.offer(0.0, highest, noise);
  for (size_t i = 0; i < logits.size(); ++i) {
    const float z = (logits[i] - shift) * factor;
    if (!(z >= floor) || z < best.score - kGumbelMax) continue;
    best.offer(z, static_cast<TokenId>(i), noise);
  }
  return best.token;
}

}  // namespace

Sampler::Sampler(const kernels::Kernels& kernels, int32_t vocab)
    : kernels_(kernels), filter_(kernels, vocab), adjusted_(static_cast<size_t>(vocab)) {}

std::optional<TokenId> Sampler::sample(std::span<const float> logits,
                                       const SamplingParams& params, const TokenCounts& counts,
                                       int32_t choice, int32_t position) {
  if (has_adjustments(params)) {
    const std::span<float> row(adjusted_.data(), logits.size());
    std::copy(logits.begin(), logits.end(), row.begin());
    adjust_logits(params, counts, row);
    logits = row;
  }
  const auto highest = static_cast<TokenId>(
      kernels_.argmax(logits.data(), static_cast<int64_t>(logits.size())));
  const float value = logits[static_cast<size_t>(highest)];
  if (!std::isfinite(value)) return std::nullopt;
  if (params.temperature < kGreedyTemperature) return highest;
  const NoiseRow noise(params.seed, choice, position);
  if (CandidateFilter::needed(params, static_cast<int64_t>(logits.size()))) {
    const auto candidates = filter_.filter(logits, value, params);
    if (candidates.empty()) return std::nullopt;
    return draw(candidates, noise);
  }
  return draw_from_row(logits, highest, temperature_factor(params), min_p_floor(params.min_p),
                       noise);
}

}  // namespace lineshaft::decoding
