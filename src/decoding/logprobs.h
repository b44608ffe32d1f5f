// Log-probabilities as the API reports them: ln softmax of the raw logits.
//
// Before bias, penalties and temperature, so that they say what the model thinks. Must not choose.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/token_event.h"
#include "kernels/backend.h"

namespace lineshaft::decoding {

struct TokenLogprobs {
  float chosen = 0.0f;              // of the chosen token; not finite when the row has NaN
  std::vector<TokenLogprob> top;    // `count` best, descending, ties to the lower id
};

// logits: [vocab] raw; 0 <= chosen < vocab; count >= 0 (fewer when the vocabulary is smaller).
TokenLogprobs token_logprobs(const kernels::Kernels& kernels, std::span<const float> logits,
                             TokenId chosen, int32_t count);

// The `count` highest values of a row, descending, ties to the lower id; `logprob` holds the value
// itself minus `shift`.
std::vector<TokenLogprob> top_values(std::span<const float> values, float shift, int32_t count);

}  // namespace lineshaft::decoding
