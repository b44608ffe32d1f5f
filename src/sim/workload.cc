#include "sim/workload.h"

#include <algorithm>

#include "sim/dice.h"

namespace lineshaft::sim {
namespace {

// Prompt tokens stay below this, so that a -1 of the arena or a stop token is never one.
constexpr int32_t kPromptVocab = 1000;

std::vector<TokenId> draw_tokens(Dice& dice, int32_t count) {
  std::vector<TokenId> out(static_cast<size_t>(count));
  for (TokenId& token : out) token = dice.between(0, kPromptVocab - 1);
  return out;
}

void draw_faults(const CallerFaults& faults, Dice& dice, Caller* caller, Request* request) {
  const auto later = [&](int32_t ms_max) {
    return caller->arrival + Duration::microseconds(dice.between(0, ms_max * 1000));
  };
  caller->lost_choice = dice.between(0, request->sampling.n - 1);
  if (dice.chance(faults.cancel_permille)) caller->cancel = later(400);
  if (dice.chance(faults.cancel_choice_permille)) caller->cancel_choice = later(400);
  if (dice.chance(faults.cancel_on_token_permille)) {
    caller->cancel_on_token = dice.between(0, request->sampling.max_tokens - 1);
  }
  if (dice.chance(faults.deadline_permille)) request->deadline = later(600);
}

}  // namespace

std::vector<Caller> draw_workload(const WorkloadConfig& config, const Limits& limits, RngKey key) {
  Dice dice(key);
  std::vector<std::vector<TokenId>> prefixes;
  for (int32_t i = 0; i < config.prefix_groups; ++i) {
    prefixes.push_back(draw_tokens(dice, dice.between(1, config.prefix_tokens_max)));
  }
  // The last token of an answer takes no slot.
  const int32_t length_max =
      std::min(limits.context_tokens, limits.kv_blocks * limits.block_tokens + 1);
  std::vector<Caller> out;
  Instant time;
  for (int32_t i = 0; i < config.requests; ++i) {
    time = time + Duration::microseconds(dice.between(0, config.gap_ms_max * 1000));
    Request request;
    request.id = RequestId{static_cast<uint64_t>(i) + 1};
    std::vector<TokenId> prompt;
    if (!prefixes.empty() && dice.chance(700)) {
      prompt = prefixes[static_cast<size_t>(dice.between(0, config.prefix_groups - 1))];
    }
    const auto own = draw_tokens(dice, dice.between(0, config.prompt_tokens_max));
    prompt.insert(prompt.end(), own.begin(), own.end());
    if (prompt.empty()) prompt = draw_tokens(dice, 1);
    Caller caller;
    caller.impossible = dice.chance(config.faults.impossible_permille);
    if (!caller.impossible) {
      prompt.resize(std::min(prompt.size(), static_cast<size_t>(length_max) - 1));
    }
    const auto prompt_tokens = static_cast<int32_t>(prompt.size());
    request.sampling.max_tokens =
        caller.impossible ? std::max(1, length_max - prompt_tokens + 1)
                          : std::min(dice.between(1, config.max_tokens_max),
                                     length_max - prompt_tokens);
    request.prompt = std::move(prompt);
    request.original_prompt_tokens = prompt_tokens;
    request.sampling.seed = dice.bits();
    request.sampling.n = dice.between(1, config.choices_max);
    if (config.priorities) request.priority = static_cast<Priority>(dice.between(0, 2));
    caller.arrival = time;
    draw_faults(config.faults, dice, &caller, &request);
    caller.request = std::make_shared<const Request>(std::move(request));
    out.push_back(std::move(caller));
  }
  return out;
}

}  // namespace lineshaft::sim
