#include "policy/scheduler.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/check.h"

namespace lineshaft::policy {
namespace {

// Chunks end at multiples of this: kernels work on tiles of rows, and a chunk of one or two rows
// costs a walk through all weights.
constexpr int32_t kChunkRows = 16;
// Where so many do not fit into a step (far into a long prompt a row is dear by its attention),
// multiples of this do.
constexpr int32_t kChunkRowsSmall = 4;

// With prompts a step takes at most this many times what its decode rows take alone, or step_ms
// where that is more: readers see no gap of twice their usual one, with room for an error of the
// prediction, and prompts get at least three sevenths of any step.
constexpr double kStretchMax = 1.75;

// The aged prompt's part of the prompt budget, and the inverse of the reserved part of starts.
constexpr double kAgedShare = 0.25;
constexpr int32_t kReservedStartEvery = 4;

// Steps that prompts wait for when decode rows leave no room for the smallest chunk.
constexpr int32_t kStepsWithoutPromptMax = 3;

// Waiting sequences whose cached prefixes are kept from eviction: those that may start next.
constexpr int32_t kNextCount = 4;

// Room for block tables that a plan has from the start; with more it allocates as they grow.
constexpr size_t kTableBlocksMax = 1 << 18;

// A bucket's share a round: small against the step, so that all buckets meet in most steps.
constexpr double kQuantumShare = 0.125;

}  // namespace

Status validate(const SchedulerConfig& config) {
  const Limits& l = config.limits;
  if (l.block_tokens < 1) {
    return invalid_argument("block_tokens is {}, not positive", l.block_tokens);
  }
  if (l.kv_blocks < 1) return invalid_argument("kv_blocks is {}, not positive", l.kv_blocks);
  if (l.context_tokens < 2) {
    return invalid_argument("context_tokens is {}, less than 2 (--max-context)", l.context_tokens);
  }
  if (l.sequences_max < 1) {
    return invalid_argument("sequences_max is {}, not positive", l.sequences_max);
  }
  if (l.step_tokens_max < l.sequences_max) {
    return invalid_argument("step_tokens_max is {}, less than sequences_max, {}: a decode step "
                            "would not fit", l.step_tokens_max, l.sequences_max);
  }
  if (!(config.step_ms > 0.0 && config.step_ms <= 1e6)) {
    return invalid_argument("step_ms is {}, not in (0, 1000000]", config.step_ms);
  }
  if (!(config.prompt_step_ms >= config.step_ms && config.prompt_step_ms <= 1e6)) {
    return invalid_argument("prompt_step_ms is {}, not in [step_ms, 1000000]",
                            config.prompt_step_ms);
  }
  if (config.age_bound.ns <= 0) return invalid_argument("age_bound is not positive");
  return ok_status();
}

Scheduler::Scheduler(SchedulerConfig config)
    : config_(config),
      pool_(config.limits.kv_blocks),
      cost_(config.cost),
      shares_(kPriorities, FairShare(config.step_ms * kQuantumShare)),
      queues_(kPriorities) {
  const Status valid = validate(config_);
  LS_CHECK(valid.ok(), "{}", message_of(valid));
  const auto sequences = static_cast<size_t>(config_.limits.sequences_max);
  const auto tables = std::min(kTableBlocksMax, sequences * static_cast<size_t>(blocks_for(
                                                    config_.limits.context_tokens)));
  draft_.work.reserve(sequences);
  by_rank_.reserve(sequences);
  for (InFlight& record : in_flight_) record.work.reserve(sequences);
  spare_plans_.resize(Worker::kPlansMax);
  for (StepPlan& plan : spare_plans_) {
    plan.work.reserve(sequences);
    plan.results.reserve(sequences);
    plan.blocks.reserve(tables);
  }
}

std::optional<StepPlan> Scheduler::plan(Instant now) {
  LS_CHECK(plans_in_flight() < Worker::kPlansMax);
  draft_.begin(now, config_.limits.step_tokens_max);
  keep_prefixes_of_next();
  plan_decodes(draft_);
  plan_prompts(draft_);
  pool_.ledger().check();
  if (draft_.work.empty()) return std::nullopt;
  return emit(draft_);
}

void Scheduler::Draft::begin(Instant at, int32_t rows_max) {
  now = at;
  shape = {};
  work.clear();
  starts_closed = false;
  rows_left = rows_max;
}

void Scheduler::recycle(StepPlan&& plan) {
  plan.starts.clear();
  plan.ends.clear();
  plan.work.clear();
  plan.blocks.clear();
  plan.results.clear();
  plan.row_count = 0;
  if (spare_plans_.size() < Worker::kPlansMax) spare_plans_.push_back(std::move(plan));
}

// Blocks taken in this step must not evict what the next sequences in line will want.
void Scheduler::keep_prefixes_of_next() {
  if (pool_.ledger().cached() == 0) return;
  auto it = waiting_.begin();
  for (int i = 0; i < kNextCount && it != waiting_.end(); ++i) ++it;
  while (it != waiting_.begin()) {
    const Sequence& seq = get(*--it);
    const int32_t count = seq.reusable_blocks(config_.limits.block_tokens);
    pool_.touch(std::span(seq.hashes).first(static_cast<size_t>(count)));
  }
}

const std::vector<Sequence*>& Scheduler::running_by_rank() {
  by_rank_.clear();
  for (const SeqId id : running_) by_rank_.push_back(&get(id));
  std::sort(by_rank_.begin(), by_rank_.end(),
            [](const Sequence* a, const Sequence* b) { return rank(*a) < rank(*b); });
  return by_rank_;
}

void Scheduler::plan_decodes(Draft& draft) {
  for (Sequence* seq : running_by_rank()) {
    if (seq->state != SeqState::kDecoding) continue;  // prefilling, or preempted just now
    if (seq->length_planned() >= seq->length_max) continue;
    if (!extend(*seq, seq->planned + 1)) {
      draft.starts_closed = true;  // what becomes free belongs to this one
      continue;
    }
    add_rows(draft, *seq, 1);
  }
}

// Gives `seq` blocks for `positions`; false when it must do without this step. It may have been
// preempted itself then.
bool Scheduler::extend(Sequence& seq, int32_t positions) {
  while (static_cast<int32_t>(seq.blocks.size()) < blocks_for(positions)) {
    auto block = pool_.take();
    if (!block && leaving_ == 0) {
      preempt_for(seq);
      if (seq.state != SeqState::kDecoding) return false;
      block = pool_.take();
    }
    // Without one, a sequence that leaves holds blocks which come back with a step's answer.
    if (!block) return false;
    seq.blocks.push_back(*block);
  }
  return true;
}

void Scheduler::preempt_for(const Sequence& seq) {
  Sequence* victim = nullptr;
  for (const SeqId id : running_) {
    Sequence& other = get(id);
    if (victim == nullptr || rank(*victim) < rank(other)) victim = &other;
  }
  LS_CHECK(victim != nullptr && !(rank(*victim) < rank(seq)));
  LS_CHECK(running_.size() > 1, "sequence {} doesn't fit the pool alone", seq.seq.value);
  ++victim->preemptions;
  ++counters_.preemptions;
  leave(*victim, false);
}

// A step without decode rows keeps nobody's next token waiting.
double Scheduler::prompt_budget_ms(const Draft& draft) const {
  const double decode_ms = cost_.predict_ms(draft.shape);
  if (draft.work.empty()) return config_.prompt_step_ms - decode_ms;
  return std::max(config_.step_ms, kStretchMax * decode_ms) - decode_ms;
}

void Scheduler::plan_prompts(Draft& draft) {
  draft.prompt_budget_ms = prompt_budget_ms(draft);
  double budget_ms = draft.prompt_budget_ms;
  start_reserved(draft);
  plan_aged(draft, &budget_ms);

  sort_prompts(draft);
  for (int p = 0; p < kPriorities; ++p) {
    const size_t level = static_cast<size_t>(p);
    plan_level(draft, queues_[level], shares_[level], &budget_ms);
  }
  const bool none_wanted = draft.shape.has_prompt || prompts_.empty();
  steps_without_prompt_ = none_wanted ? 0 : steps_without_prompt_ + 1;
  if (draft.work.empty() || steps_without_prompt_ > kStepsWithoutPromptMax) {
    for (PromptQueue& queue : queues_) queue.next = {};
    plan_smallest(draft);
  }
}

// Who may have prompt rows in this step, by priority and bucket.
void Scheduler::sort_prompts(const Draft& draft) {
  const bool slot_free = running() + leaving_ < config_.limits.sequences_max;
  const std::set<SeqId> nobody;
  const std::set<SeqId>& waiting = slot_free && !draft.starts_closed ? waiting_ : nobody;
  prompts_.clear();  // ids rise in order of arrival
  std::set_union(waiting.begin(), waiting.end(), running_.begin(), running_.end(),
                 std::back_inserter(prompts_));
  std::erase_if(prompts_, [this](SeqId id) { return get(id).state == SeqState::kDecoding; });
  for (PromptQueue& queue : queues_) queue.clear();
  for (const SeqId id : prompts_) {
    Sequence& seq = get(id);
    queues_[static_cast<size_t>(seq.priority)].push(&seq);
  }
}

// Rule 3: the oldest sequence that waits beyond the age bound.
void Scheduler::start_reserved(Draft& draft) {
  if (draft.starts_closed || starts_since_reserved_ < kReservedStartEvery - 1) return;
  for (const SeqId id : waiting_) {
    Sequence& seq = get(id);
    if (draft.now - seq.arrival <= config_.age_bound) return;
    const Start result = start(seq);
    if (result == Start::kPrefixInTheMaking) continue;
    if (result == Start::kNoRoom) {
      draft.starts_closed = true;
    } else {
      starts_since_reserved_ = 0;
      ++counters_.reserved_starts;
    }
    return;
  }
}

// Rule 2: the oldest prompt in work, if it is older than the age bound.
void Scheduler::plan_aged(Draft& draft, double* budget_ms) {
  for (const SeqId id : running_) {
    Sequence& seq = get(id);
    if (seq.state != SeqState::kPrefilling) continue;
    if (draft.now - seq.arrival <= config_.age_bound) return;
    const int32_t first = seq.planned;
    const int32_t count = chunk_within(draft, seq, *budget_ms * kAgedShare);
    if (count == 0) return;
    add_rows(draft, seq, count);
    *budget_ms -= cost_.chunk_ms(first, count, seq.state == SeqState::kDecoding);
    return;
  }
}

void Scheduler::plan_level(Draft& draft, PromptQueue& queue, FairShare& share,
                           double* budget_ms) {
  *budget_ms = share.run(*budget_ms, [&](int bucket, double ms) -> std::optional<double> {
    while (Sequence* seq = queue.head(bucket)) {
      if (draft.rows_left == 0) return std::nullopt;
      if (!ready(draft, *seq, queue, bucket)) {
        queue.pop(bucket);
        continue;
      }
      const int32_t first = seq->planned;
      const int32_t count = chunk_within(draft, *seq, ms);
      if (count == 0) return FairShare::kTooDear;
      add_rows(draft, *seq, count);
      return cost_.chunk_ms(first, count, seq->state == SeqState::kDecoding);
    }
    return std::nullopt;
  });
}

// A step without any work would stop the house: one small chunk goes whatever it costs.
void Scheduler::plan_smallest(Draft& draft) {
  if (draft.rows_left == 0) return;
  steps_without_prompt_ = 0;
  for (PromptQueue& queue : queues_) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      for (; Sequence* seq = queue.head(bucket); queue.pop(bucket)) {
        if (!ready(draft, *seq, queue, bucket)) continue;
        const int32_t count = std::min(kChunkRowsSmall - seq->planned % kChunkRowsSmall,
                                       seq->known - seq->planned);
        add_rows(draft, *seq, std::min(count, draft.rows_left));
        return;
      }
    }
  }
}

// Whether `seq` may have rows now; a waiting one is started for this.
bool Scheduler::ready(Draft& draft, Sequence& seq, PromptQueue& queue, int bucket) {
  if (seq.state == SeqState::kPrefilling) return true;
  if (seq.state != SeqState::kWaiting) return false;
  bool& closed = queue.starts_closed[static_cast<size_t>(bucket)];
  if (closed || draft.starts_closed) return false;
  const Start result = start(seq);
  if (result == Start::kNoRoom) closed = true;
  if (result != Start::kStarted) return false;
  ++starts_since_reserved_;
  return true;
}

// Rows of the next chunk of `seq` that cost at most `ms` and fit the step; 0 when none do.
int32_t Scheduler::chunk_within(const Draft& draft, const Sequence& seq, double ms) const {
  const int32_t remaining = seq.known - seq.planned;
  const int32_t rows_max = std::min(remaining, draft.rows_left);
  if (rows_max == remaining && cost_.chunk_ms(seq.planned, remaining, true) <= ms) {
    return remaining;
  }
  const int32_t end = seq.planned + std::min(cost_.rows_within(ms, seq.planned, rows_max),
                                             remaining - 1);
  const bool dear = cost_.chunk_ms(seq.planned, kChunkRows, false) > draft.prompt_budget_ms;
  const int32_t unit = dear ? kChunkRowsSmall : kChunkRows;
  return std::max(0, end / unit * unit - seq.planned);
}

void Scheduler::add_rows(Draft& draft, Sequence& seq, int32_t count) {
  const int32_t first = seq.planned;
  const bool sample = first + count == seq.length_planned();
  LS_CHECK(count > 0 && count <= draft.rows_left && first + count <= seq.length_planned());
  draft.rows_left -= count;
  draft.shape.add(first, count, sample);
  const auto same = [&](const Work& work) { return work.seq == &seq; };
  const auto it = std::find_if(draft.work.begin(), draft.work.end(), same);
  if (it == draft.work.end()) {
    draft.work.push_back({&seq, first, count, sample});
    ++seq.in_flight;
  } else {
    it->count += count;
    it->sample = sample;
  }
  if (seq.state == SeqState::kPrefilling) {
    draft.shape.has_prompt = true;
    if (sample) seq.state = SeqState::kDecoding;
  }
  seq.planned += count;
  if (sample) ++seq.pending;
}

StepPlan Scheduler::emit(Draft& draft) {
  StepPlan plan;
  if (!spare_plans_.empty()) {
    plan = std::move(spare_plans_.back());
    spare_plans_.pop_back();
  }
  plan.step = next_step_;
  ++next_step_.value;
  plan.ends.swap(ends_);
  for (const Work& work : draft.work) {
    Sequence& seq = *work.seq;
    if (!seq.introduced) {
      plan.starts.push_back({seq.seq, seq.choice, nullptr});
      seq.introduced = true;
    }
    SeqWork out;
    out.seq = seq.seq;
    out.first = work.first;
    out.count = work.count;
    out.sample = work.sample;
    out.blocks_begin = static_cast<int32_t>(plan.blocks.size());
    out.blocks_count = blocks_for(work.first + work.count);
    plan.blocks.insert(plan.blocks.end(), seq.blocks.begin(),
                       seq.blocks.begin() + out.blocks_count);
    plan.work.push_back(out);
    plan.row_count += work.count;
  }
  InFlight& record = in_flight_[static_cast<size_t>(plans_in_flight_++)];
  record.step = plan.step;
  record.shape = draft.shape;
  record.work.assign(plan.work.begin(), plan.work.end());
  ++counters_.steps;
  return plan;
}

}  // namespace lineshaft::policy
