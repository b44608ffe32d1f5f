#include "sim/workload.h"

#include <algorithm>

#include "sim/dice.h"
#include "sim/token_function.h"

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

// How a prompt begins: an earlier dialogue, a shared text, or nothing.
std::vector<TokenId> draw_beginning(const WorkloadConfig& config,
                                    const std::vector<std::vector<TokenId>>& prefixes,
                                    const std::vector<Caller>& earlier, Dice& dice) {
  if (!earlier.empty() && dice.chance(config.follow_up_permille)) {
    const int32_t last = static_cast<int32_t>(earlier.size()) - 1;
    const Request& request = *earlier[static_cast<size_t>(dice.between(0, last))].request;
    std::vector<TokenId> out = request.prompt;
    const std::vector<TokenId> answer = whole_answer(request, 0).tokens;
    out.insert(out.end(), answer.begin(), answer.end());
    return out;
  }
  if (prefixes.empty() || !dice.chance(700)) return {};
  return prefixes[static_cast<size_t>(dice.between(0, config.prefix_groups - 1))];
}

// A request without id and faults. The last token of an answer takes no slot.
Request draw_request(const WorkloadConfig& config, const Limits& limits, bool impossible,
                     std::vector<TokenId> prompt, Dice& dice) {
  const int32_t length_max =
      std::min(limits.context_tokens, limits.kv_blocks * limits.block_tokens + 1);
  const auto own = draw_tokens(dice, dice.between(0, config.prompt_tokens_max));
  prompt.insert(prompt.end(), own.begin(), own.end());
  if (prompt.empty()) prompt = draw_tokens(dice, 1);
  if (!impossible) prompt.resize(std::min(prompt.size(), static_cast<size_t>(length_max) - 1));
  const auto prompt_tokens = static_cast<int32_t>(prompt.size());
  const int32_t room = length_max - prompt_tokens;
  Request request;
  request.prompt = std::move(prompt);
  request.original_prompt_tokens = prompt_tokens;
  request.sampling.max_tokens = impossible
                                    ? std::max(1, room + 1)
                                    : std::min(dice.between(1, config.max_tokens_max), room);
  request.sampling.seed = dice.bits();
  request.sampling.n = dice.between(1, config.choices_max);
  if (config.priorities) request.priority = static_cast<Priority>(dice.between(0, 2));
  return request;
}

}  // namespace

std::vector<Caller> draw_workload(const WorkloadConfig& config, const Limits& limits, RngKey key) {
  Dice dice(key);
  std::vector<std::vector<TokenId>> prefixes;
  for (int32_t i = 0; i < config.prefix_groups; ++i) {
    prefixes.push_back(draw_tokens(dice, dice.between(1, config.prefix_tokens_max)));
  }
  std::vector<Caller> out;
  Instant time;
  for (int32_t i = 0; i < config.requests; ++i) {
    time = time + Duration::microseconds(dice.between(0, config.gap_ms_max * 1000));
    Caller caller;
    caller.arrival = time;
    caller.impossible = dice.chance(config.faults.impossible_permille);
    Request request = draw_request(config, limits, caller.impossible,
                                   draw_beginning(config, prefixes, out, dice), dice);
    request.id = RequestId{static_cast<uint64_t>(i) + 1};
    draw_faults(config.faults, dice, &caller, &request);
    caller.request = std::make_shared<const Request>(std::move(request));
    out.push_back(std::move(caller));
  }
  return out;
}

}  // namespace lineshaft::sim
