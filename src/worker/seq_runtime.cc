#include "worker/seq_runtime.h"

#include <algorithm>

namespace lineshaft::worker {
namespace {

int64_t original_prompt_tokens(const Request& request) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  return request.original_prompt_tokens > 0
             ? std::min<int64_t>(request.original_prompt_tokens, prompt)
             : prompt;
}

}  // namespace

SeqRuntime::SeqRuntime(const SeqStart& start, int32_t context_tokens)
    : request_(start.request), choice_(start.choice) {
  const std::vector<TokenId>& prompt = request_->prompt;
  const int64_t original = original_prompt_tokens(*request_);
  size_max_ = static_cast<int32_t>(
      std::min<int64_t>(context_tokens, original + request_->sampling.max_tokens));
  const auto room = std::max<size_t>(prompt.size(), static_cast<size_t>(size_max_));
  tokens_.reserve(room);
  tokens_.assign(prompt.begin(), prompt.end());
  if (!decoding::has_penalties(params())) return;
  counts_.reserve(static_cast<int64_t>(room));
  counts_.add_prompt(std::span(prompt).first(static_cast<size_t>(original)));
  for (size_t i = static_cast<size_t>(original); i < prompt.size(); ++i) {
    counts_.add_answered(prompt[i]);
  }
}

bool SeqRuntime::stops(TokenId token, const Vocab& vocab) const {
  const auto& stop_tokens = params().stop_tokens;
  if (std::binary_search(stop_tokens.begin(), stop_tokens.end(), token)) return true;
  const auto& ends = vocab.end_of_generation;
  return !params().ignore_eos && std::binary_search(ends.begin(), ends.end(), token);
}

std::optional<FinishReason> SeqRuntime::accept(TokenId token, const Vocab& vocab) {
  if (stops(token, vocab)) {
    ended_ = true;
    return FinishReason::kStop;
  }
  tokens_.push_back(token);
  if (decoding::has_penalties(params())) counts_.add_answered(token);
  if (size() < size_max_) return std::nullopt;
  ended_ = true;
  return FinishReason::kLength;
}

}  // namespace lineshaft::worker
