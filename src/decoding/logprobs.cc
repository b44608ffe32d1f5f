#include "decoding/logprobs.h"

#include <algorithm>

#include "decoding/logits.h"

namespace lineshaft::decoding {

TokenLogprobs token_logprobs(const kernels::Kernels& kernels, std::span<const float> logits,
                             TokenId chosen, int32_t count) {
  const float lse = kernels.log_sum_exp(logits.data(), static_cast<int64_t>(logits.size()));
  return {logits[static_cast<size_t>(chosen)] - lse, top_values(logits, lse, count)};
}

std::vector<TokenLogprob> top_values(std::span<const float> values, float shift, int32_t count) {
  count = std::min(count, static_cast<int32_t>(values.size()));
  if (count <= 0) return {};
  std::vector<Candidate> best;
  best.reserve(2 * static_cast<size_t>(count));
  // Selected by the value itself: after a subtraction different values may round to the same.
  select_top_k(values, 0.0f, 1.0f, count, best);
  std::sort(best.begin(), best.end(), better);
  std::vector<TokenLogprob> out;
  out.reserve(best.size());
  for (const Candidate& c : best) out.push_back({c.token, c.z - shift});
  return out;
}

}  // namespace lineshaft::decoding
