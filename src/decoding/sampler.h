// Sampler: a row of logits and a sequence's parameters give the next token.
//
// A pure function of its arguments: token = argmax over the kept tokens of
// logit / temperature + noise(seed, choice, position, token), which is a draw from the softmax
// (Gumbel-max). No stream of random numbers is shared, so neither the batch nor the order of calls
// can change an answer. Must not know requests, stop tokens or threads: the caller has one Sampler
// a thread, for a Sampler only holds scratch memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/request.h"
#include "decoding/logits.h"
#include "kernels/backend.h"

namespace lineshaft::decoding {

class Sampler {
 public:
  // Allocates for rows of up to `vocab` logits; sample() then allocates nothing. `kernels` must
  // outlive the sampler.
  Sampler(const kernels::Kernels& kernels, int32_t vocab);

  // The token for absolute position `position` (the prompt's first token has 0) of choice
  // `choice`. logits: [vocab], vocab >= 1; `counts` are looked at when has_penalties(params).
  // temperature below kGreedyTemperature: the highest logit after bias and penalties.
  // Ties go to the lower id. nullopt when there is no finite highest logit or, with top-p, when
  // any logit is NaN; elsewhere a NaN is never chosen.
  std::optional<TokenId> sample(std::span<const float> logits, const SamplingParams& params,
                                const TokenCounts& counts, int32_t choice, int32_t position);

 private:
  const kernels::Kernels& kernels_;
  CandidateFilter filter_;
  std::vector<float> adjusted_;
};

}  // namespace lineshaft::decoding
