// SeqRuntime: the contents of one running sequence: its tokens and what its sampler needs.
//
// Holds no progress (which positions are in KV is the plan's business) and survives preemption as
// it is. Knows when its answer ends. Found by SeqId in a step runner; used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/request.h"
#include "core/step_plan.h"
#include "core/token_event.h"
#include "core/vocab.h"
#include "decoding/logits.h"

namespace lineshaft::worker {

class SeqRuntime {
 public:
  // Contents begin as the request's prompt. Tokens of the prompt beyond original_prompt_tokens are
  // an answer's beginning (a retry): penalties and max_tokens count them as generated. Room for
  // the whole answer within context_tokens is allocated here.
  SeqRuntime(const SeqStart& start, int32_t context_tokens);

  std::span<const TokenId> tokens() const { return tokens_; }
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  const SamplingParams& params() const { return request_->sampling; }
  int32_t choice() const { return choice_; }
  const decoding::TokenCounts& counts() const { return counts_; }
  bool ended() const { return ended_; }

  // Takes the token sampled for position size(). Returns why the answer ends with it, if it does:
  //   kStop    the token is one of the request's stop tokens, or ends generation in `vocab` and
  //            ignore_eos is off; it is then not part of the contents
  //   kLength  it is the last of max_tokens, or fills the context
  std::optional<FinishReason> accept(TokenId token, const Vocab& vocab);

  // Ends the sequence without a token.
  void end() { ended_ = true; }

 private:
  bool stops(TokenId token, const Vocab& vocab) const;

  std::shared_ptr<const Request> request_;
  int32_t choice_;
  int32_t size_max_;          // contents never grow beyond
  std::vector<TokenId> tokens_;
  decoding::TokenCounts counts_;
  bool ended_ = false;
};

}  // namespace lineshaft::worker
