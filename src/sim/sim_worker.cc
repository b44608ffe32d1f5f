#include "sim/sim_worker.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/token_function.h"

namespace lineshaft::sim {
namespace {

constexpr size_t kViolationsMax = 20;  // the first ones tell the story

}  // namespace

SimWorker::SimWorker(World& world, const Limits& limits, const StepCost& cost,
                     const WorkerFaults& faults, RngKey key, Answer answer)
    : world_(world),
      limits_(limits),
      cost_(cost),
      faults_(faults),
      key_(key),
      answer_(std::move(answer)),
      arena_(static_cast<size_t>(limits.kv_blocks) * static_cast<size_t>(limits.block_tokens),
             -1) {}

void SimWorker::violation(std::string sentence) {
  if (violations_.size() < kViolationsMax) violations_.push_back(std::move(sentence));
}

void SimWorker::start(StepPlan plan) {
  if (++unanswered_ > kPlansMax) violation(fmt::format("{} plans at once", unanswered_));
  check_shape(plan);
  fold(plan);
  const Duration took = duration_of(plan);
  busy_until_ = std::max(busy_until_, world_.now()) + took;
  world_.at(busy_until_, [this, plan = std::move(plan), took] { run(plan, took); });
}

void SimWorker::check_shape(const StepPlan& plan) {
  if (plan.step.value != ++steps_) violation(fmt::format("step {} is not next", plan.step.value));
  int32_t rows = 0;
  std::map<SeqId, int> seen;
  for (const SeqWork& work : plan.work) {
    rows += work.count;
    if (++seen[work.seq] > 1) violation(fmt::format("seq {} twice in a plan", work.seq.value));
    if (work.count < 1) violation(fmt::format("seq {} has no rows", work.seq.value));
    if (work.blocks_count * limits_.block_tokens < work.first + work.count) {
      violation(fmt::format("seq {} has too few blocks", work.seq.value));
    }
  }
  const auto sequences = static_cast<int32_t>(plan.work.size());
  if (sequences == 0 || sequences > limits_.sequences_max || rows != plan.row_count ||
      rows > limits_.step_tokens_max) {
    violation(fmt::format("step {}: {} sequences, {} of {} rows", plan.step.value, sequences, rows,
                          plan.row_count));
  }
}

void SimWorker::fold(const StepPlan& plan) {
  const auto add = [this](uint64_t value) { plans_hash_ = mix64(plans_hash_ ^ mix64(value)); };
  for (const SeqStart& start : plan.starts) add(start.seq.value);
  for (const SeqId seq : plan.ends) add(~seq.value);
  for (const SeqWork& work : plan.work) {
    add(work.seq.value);
    add(static_cast<uint64_t>(work.first) << 32 | static_cast<uint64_t>(work.count) << 1 |
        (work.sample ? 1 : 0));
  }
  for (const BlockId block : plan.blocks) add(static_cast<uint64_t>(block.value));
}

Duration SimWorker::duration_of(const StepPlan& plan) const {
  double ms = cost_.base_ms + plan.row_count * cost_.row_ms;
  for (const SeqWork& work : plan.work) {
    if (work.sample) ms += cost_.sample_ms;
    ms += cost_.pair_ms * work.count * (work.first + 0.5 * (work.count + 1));
  }
  const uint64_t step = plan.step.value;
  const auto noise = static_cast<uint64_t>(faults_.noise_permille);
  const auto part = key_.split(1).below(step, 2 * noise + 1);
  ms *= (1000.0 + static_cast<double>(part) - static_cast<double>(noise)) / 1000.0;
  if (key_.split(2).below(step, 1000) < static_cast<uint64_t>(faults_.slow_step_permille)) {
    ms *= faults_.slow_step_factor;
  }
  return Duration::from_milliseconds(ms);
}

void SimWorker::run(const StepPlan& plan, Duration took) {
  for (const SeqStart& start : plan.starts) {
    const Request& request = *start.request;
    Contents contents;
    contents.tokens = request.prompt;
    contents.prompt_tokens = static_cast<int32_t>(request.prompt.size());
    contents.max_tokens = request.sampling.max_tokens;
    contents.seed = request.sampling.seed;
    contents.choice = start.choice;
    if (!contents_.emplace(start.seq, std::move(contents)).second) {
      violation(fmt::format("seq {} starts twice", start.seq.value));
    }
  }
  for (const SeqId seq : plan.ends) contents_.erase(seq);
  StepResult result;
  result.step = plan.step;
  result.compute = took;
  for (const SeqWork& work : plan.work) result.results.push_back(run_work(plan, work));
  --unanswered_;
  answer_(std::move(result));
}

TokenId& SimWorker::slot(const StepPlan& plan, const SeqWork& work, int32_t position) {
  const int32_t entry = work.blocks_begin + position / limits_.block_tokens;
  const int32_t block = plan.blocks.at(static_cast<size_t>(entry)).value;
  return arena_.at(static_cast<size_t>(block) * static_cast<size_t>(limits_.block_tokens) +
                   static_cast<size_t>(position % limits_.block_tokens));
}

std::vector<TokenId> SimWorker::read_back(const StepPlan& plan, const SeqWork& work) const {
  std::vector<TokenId> prefix;
  for (int32_t p = 0; p < work.first + work.count; ++p) {
    prefix.push_back(const_cast<SimWorker*>(this)->slot(plan, work, p));
  }
  return prefix;
}

SeqResult SimWorker::run_work(const StepPlan& plan, const SeqWork& work) {
  SeqResult result;
  result.seq = work.seq;
  const auto it = contents_.find(work.seq);
  if (it == contents_.end()) {
    violation(fmt::format("seq {} is unknown", work.seq.value));
    return result;
  }
  Contents& contents = it->second;
  if (contents.ended) {
    result.skipped = true;
    return result;
  }
  const auto length = static_cast<int32_t>(contents.tokens.size());
  if (work.first + work.count > length) {
    violation(fmt::format("seq {}: positions up to {} of {} tokens", work.seq.value,
                          work.first + work.count, length));
    return result;
  }
  for (int32_t p = work.first; p < work.first + work.count; ++p) {
    slot(plan, work, p) = contents.tokens[static_cast<size_t>(p)];
  }
  if (work.sample != (work.first + work.count == length)) {
    violation(fmt::format("seq {}: sample is wrong at {}", work.seq.value, work.first));
  }
  if (work.sample) sample(contents, read_back(plan, work), &result);
  return result;
}

void SimWorker::sample(Contents& contents, const std::vector<TokenId>& prefix,
                       SeqResult* result) {
  TokenFunction model;
  model.seed = contents.seed;
  model.choice = contents.choice;
  model.prompt_tokens = contents.prompt_tokens;
  model.answer_tokens = answer_length(contents.seed, contents.choice, kAnswerTokensMax);
  result->sampled = true;
  result->token = model.next(prefix);
  if (result->token == TokenFunction::kStop) {
    contents.ended = true;
    result->ended = true;
    result->finish = FinishReason::kStop;
    return;
  }
  contents.tokens.push_back(result->token);
}

}  // namespace lineshaft::sim
