#include "decoding/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "decoding/gumbel.h"
#include "decoding/scan.h"

namespace lineshaft::decoding {
namespace {

// The best score so far; a score is z + noise in double.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  TokenId token = -1;

  // For most tokens the bound on their noise is enough to drop them, and needs no logarithm.
  void offer(double z, TokenId candidate, const NoiseRow& noise) {
    if (z + noise.bound(candidate) < score) return;
    const double other = z + noise.noise(candidate);
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

static_assert(kNoiseGroup == kScanWidth);

// Draws from the whole row (min-p cuts at `floor`). The highest logit goes first; then a group is
// only entered when its highest logit with its largest possible noise could win.
TokenId draw_from_row(std::span<const float> logits, TokenId highest, float factor, float floor,
                      const NoiseRow& noise) {
  const float shift = logits[static_cast<size_t>(highest)];
  Best best;
  best.offer(0.0, highest, noise);
  const auto count = static_cast<TokenId>(logits.size());
  for (TokenId begin = 0; begin < count; begin += kNoiseGroup) {
    const float* x = logits.data() + begin;
    const bool whole = count - begin >= kNoiseGroup;
    if (whole) {
      const float z = (largest_of_64(x) - shift) * factor;
      if (z < floor || z + kGumbelMax < best.score ||
          z + noise.group_bound(begin / kNoiseGroup) < best.score) {
        continue;
      }
    }
    const TokenId end = whole ? begin + kNoiseGroup : count;
    for (TokenId token = begin; token < end; ++token) {
      const float z = (logits[static_cast<size_t>(token)] - shift) * factor;
      if (z >= floor) best.offer(z, token, noise);  // false for NaN
    }
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
