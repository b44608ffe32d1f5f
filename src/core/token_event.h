// TokenEvent: what comes back for a request, in order.
//
// For each choice: kAccepted events come first (one a request, choice 0), then kToken events with
// positions 0, 1, 2, …, then exactly one kFinish. A refused request gets one kFinish with an
// error and nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "core/ids.h"

namespace lineshaft {

enum class FinishReason : uint8_t {
  kStop,       // a stop token (end of sequence among them)
  kLength,     // max_tokens or the context is reached
  kCancelled,  // the caller went away or a stop string matched
  kError,      // see TokenEvent::error
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // prompt tokens whose KV was reused
  int32_t generated_tokens = 0;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0f;          // ln softmax of the raw logits
};

struct TokenEvent {
  enum class Kind : uint8_t { kAccepted, kToken, kFinish };
  Kind kind = Kind::kToken;
  RequestId request;
  int32_t choice = 0;
  int32_t position = 0;          // index among the generated tokens (kToken)
  TokenId token = 0;             // kToken
  float logprob = 0.0f;          // kToken, when top_logprobs >= 0
  std::vector<TokenLogprob> top;  // kToken, when top_logprobs > 0: descending, ties to lower id
  FinishReason finish = FinishReason::kStop;  // kFinish
  TokenId stop_token = -1;       // kFinish with kStop: the token that ended it
  Status error;                  // kFinish with kError
  Usage usage;                   // kAccepted (prompt, cached) and kFinish (all)
};

}  // namespace lineshaft
