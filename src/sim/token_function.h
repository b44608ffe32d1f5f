// TokenFunction: the simulated model. The next token is a hash of the ENTIRE prefix, so that one
// wrong, stale or lost token anywhere before changes all that follow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"
#include "core/ids.h"
#include "core/request.h"

namespace lineshaft::sim {

struct TokenFunction {
  uint64_t seed = 0;        // of the request
  int32_t choice = 0;
  int32_t prompt_tokens = 0;
  int32_t answer_tokens = 0;  // the token at this index of the answer is the stop token

  static constexpr int32_t kVocab = 1 << 20;
  static constexpr TokenId kStop = kVocab;

  // The token after `prefix` (prompt and answer so far).
  TokenId next(std::span<const TokenId> prefix) const {
    const auto generated = static_cast<int32_t>(prefix.size()) - prompt_tokens;
    if (generated >= answer_tokens) return kStop;
    uint64_t h = mix64(seed ^ mix64(static_cast<uint64_t>(choice)));
    for (const TokenId token : prefix) h = mix64(h ^ static_cast<uint64_t>(token));
    return static_cast<TokenId>(h % kVocab);
  }
};

// The answer length that a request's seed and choice mean, in [1, length_max].
inline int32_t answer_length(uint64_t seed, int32_t choice, int32_t length_max) {
  const RngKey key = RngKey(seed).split(0x616e73);
  return 1 + static_cast<int32_t>(
                 key.below(static_cast<uint64_t>(choice), static_cast<uint64_t>(length_max)));
}

// Answers may stop on their own up to this length; requests with less max_tokens are cut short.
constexpr int32_t kAnswerTokensMax = 60;

// What the simulated model answers to a request's choice when nobody disturbs it.
struct WholeAnswer {
  std::vector<TokenId> tokens;  // up to max_tokens
  bool stops = false;           // the model stops after them
};
inline WholeAnswer whole_answer(const Request& request, int32_t choice) {
  TokenFunction model;
  model.seed = request.sampling.seed;
  model.choice = choice;
  model.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  model.answer_tokens = answer_length(model.seed, choice, kAnswerTokensMax);
  WholeAnswer out;
  std::vector<TokenId> text = request.prompt;
  while (static_cast<int32_t>(out.tokens.size()) < request.sampling.max_tokens) {
    const TokenId token = model.next(text);
    out.stops = token == TokenFunction::kStop;
    if (out.stops) break;
    text.push_back(token);
    out.tokens.push_back(token);
  }
  return out;
}

}  // namespace lineshaft::sim
