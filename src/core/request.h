// Request: an immutable, tokenized, validated order. A copy means the same work.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "core/ids.h"

namespace lineshaft {

// How a token is chosen from a row of logits. Applied in this order: logit_bias, repetition,
// presence and frequency penalties, then (temperature > 0) temperature, top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy (highest logit, ties to the lower id)
  int32_t top_k = 0;                // keep the k best; 0: all
  float top_p = 1.0f;               // keep the smallest set with this probability; (0, 1]
  float min_p = 0.0f;               // drop below min_p * the best probability; [0, 1]
  float repetition_penalty = 1.0f;  // > 0; divides positive, multiplies negative logits of seen
                                    // tokens (prompt and answer)
  float presence_penalty = 0.0f;    // subtracted once a token that the answer has
  float frequency_penalty = 0.0f;   // subtracted per occurrence in the answer
  std::vector<std::pair<TokenId, float>> logit_bias;  // ascending ids, no doubles
  uint64_t seed = 0;                // the noise key with choice, position and token
  int32_t max_tokens = 0;           // generated tokens, >= 1
  int32_t n = 1;                    // choices
  int32_t top_logprobs = -1;        // -1: no logprobs; 0: the chosen token's; k: and the k best
  bool ignore_eos = false;           // the vocabulary's end tokens do not end the answer
  std::vector<TokenId> stop_tokens;  // ends the answer and is not part of it; ascending ids
};

enum class Priority : uint8_t { kHigh = 0, kNormal = 1, kLow = 2 };

struct Request {
  RequestId id;
  std::vector<TokenId> prompt;      // at least one token
  int32_t original_prompt_tokens = 0;  // kept by retry, preemption and handoff
  SamplingParams sampling;
  Priority priority = Priority::kNormal;
  Deadline deadline = Instant::never();
  std::string tenant;               // "" when the server has no keys
  Hash128 cache_salt{};             // enters every block hash; zero: shared by all
};

}  // namespace lineshaft
