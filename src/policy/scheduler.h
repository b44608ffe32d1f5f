// Scheduler: which sequences run how many tokens in the next step, and which blocks they hold.
// Continuous batching, chunked prefill within a budget of milliseconds, reuse of cached prefixes,
// preemption and resume, planning ahead of steps that have not answered yet.
//
// Pure: equal config and equal calls give equal plans. Sees counts and hashes, never tokens;
// calls nobody. Misuse (an unknown step, an id twice) is a bug of ours and CHECKs.
// Steps in which nobody starts or leaves allocate nothing, if their plans' memory is given back.
//
// The rules, in the order in which a plan is made:
// 1. Every decoding sequence gets its row, best rank first (priority, then arrival). One that
//    needs a block and finds none preempts the sequence of worst rank, perhaps itself. So the
//    sequence of best rank always goes on, and a full pool never freezes anyone for good.
// 2. Prompts share what is left of the step budget, at least 3/7 of the step: high priority before
//    normal before low; inside a priority four length buckets take turns (fair_share.h); inside a
//    bucket by arrival. A quarter of it goes to the longest-waiting prompt that is older than
//    the age bound, whatever its priority. Where even the smallest chunk is dearer than that, one
//    goes every fourth step all the same.
// 3. A sequence starts only when blocks for all its known tokens are there, and one to spare for
//    each running one. Every fourth start is reserved for the oldest that waits beyond the age
//    bound: nobody else starts until it can.
// 4. A sequence whose next block is just being computed by one of better rank waits for that
//    block instead of computing it twice. Rank is a total order, so nobody waits in a circle.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/doors/worker.h"
#include "core/limits.h"
#include "core/step_plan.h"
#include "policy/block_pool.h"
#include "policy/cost_model.h"
#include "policy/prompt_queue.h"

namespace lineshaft::policy {

struct SchedulerConfig {
  Limits limits;
  StepCost cost;                                // of this worker, measured at start
  double step_ms = 50.0;                        // target for a step with decode rows
  double prompt_step_ms = 100.0;                // and for one without; at least step_ms
  Duration age_bound = Duration::seconds(5);    // beyond this, waiting outweighs priority
};

// kInvalidArgument naming the field.
Status validate(const SchedulerConfig& config);

// What became of one entry of a plan's work.
struct SeqOutcome {
  SeqId seq;
  bool skipped = false;            // the worker computed nothing: the sequence had ended
  bool token = false;              // a token was appended to the sequence
  bool ended = false;              // and it is the last thing that happens to it
  std::optional<BlockHash> hash;   // of the block that this token filled
};

class Scheduler {
 public:
  // `config` must be valid.
  explicit Scheduler(SchedulerConfig config);

  // A new sequence begins to wait. Ids rise from call to call. It must fit the pool alone.
  void add(SeqSpec spec);

  // The sequence is wanted no more. Its blocks go back at once, or when the last plan that uses
  // them has answered. Unknown and ended ids are ignored.
  void end(SeqId seq);

  // The next step, or nothing to do for now. SeqStart::request is left empty for the caller.
  // At most Worker::kPlansMax plans may be without an answer.
  std::optional<StepPlan> plan(Instant now);

  // Memory for later plans; what is in it is dropped.
  void recycle(StepPlan&& plan);

  // The answer to the oldest plan without one; `outcomes` in the order of its work.
  void on_step_done(StepId step, const std::vector<SeqOutcome>& outcomes, Duration compute);

  // Prompt tokens of a chain of hashes that are in the pool now.
  int32_t cached_tokens(const std::vector<BlockHash>& hashes, int32_t prompt_tokens) const;

  // Predicted time of all work that waits: a hint for whoever is refused.
  Duration backlog() const;

  const Sequence* find(SeqId seq) const;
  // No sequence is left, in any state.
  bool idle() const { return sequences_.empty(); }
  // Whether the oldest plan without an answer (there is one) has prompt rows.
  bool oldest_has_prompt() const { return in_flight_[0].shape.has_prompt; }
  int32_t plans_in_flight() const { return plans_in_flight_; }

  struct Counters {
    uint64_t steps = 0;
    uint64_t preemptions = 0;
    uint64_t resumes = 0;           // starts of sequences that had been preempted
    uint64_t prefix_hits = 0;       // starts that found blocks in the pool
    uint64_t prefix_waits = 0;      // times that a start was put off for a block in the making
    uint64_t skipped_rows = 0;      // planned ahead for a sequence that had ended
    uint64_t reserved_starts = 0;   // rule 3
  };
  const Counters& counters() const { return counters_; }
  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  int32_t waiting() const { return static_cast<int32_t>(waiting_.size()); }
  const BlockLedger& ledger() const { return pool_.ledger(); }
  const CostModel& cost_model() const { return cost_; }

  // CHECKs every invariant: O(blocks + sequences), for tests and simulation.
  void audit() const;

 private:
  struct Work {
    Sequence* seq;
    int32_t first;
    int32_t count;
    bool sample;
  };
  struct InFlight {
    StepId step;
    StepShape shape;
    std::vector<SeqWork> work;
  };
  // The step under construction; kept for its memory.
  struct Draft {
    Instant now;
    StepShape shape;
    std::vector<Work> work;
    bool starts_closed = false;  // no sequence may start in this step
    int32_t rows_left = 0;
    double prompt_budget_ms = 0.0;  // of all prompt rows of the step

    void begin(Instant at, int32_t rows_max);
  };
  enum class Start { kStarted, kPrefixInTheMaking, kNoRoom };

  // Plan (scheduler.cc).
  void keep_prefixes_of_next();
  void plan_decodes(Draft& draft);
  bool extend(Sequence& seq, int32_t positions);
  void preempt_for(const Sequence& seq);
  double prompt_budget_ms(const Draft& draft) const;
  void plan_prompts(Draft& draft);
  void start_reserved(Draft& draft);
  void plan_aged(Draft& draft, double* budget_ms);
  void plan_level(Draft& draft, PromptQueue& queue, FairShare& share, double* budget_ms);
  void plan_smallest(Draft& draft);
  void sort_prompts(const Draft& draft);
  bool ready(Draft& draft, Sequence& seq, PromptQueue& queue, int bucket);
  void add_rows(Draft& draft, Sequence& seq, int32_t count);
  int32_t chunk_within(const Draft& draft, const Sequence& seq, double ms) const;
  StepPlan emit(Draft& draft);

  // Life of a sequence (scheduler_life.cc).
  Start start(Sequence& seq);
  bool prefix_in_the_making(Sequence& seq);
  void wait(Sequence& seq);
  void publish(Sequence& seq);
  void leave(Sequence& seq, bool ended);
  void finish_leaving(Sequence& seq);
  void withdraw_promises(const Sequence& seq);
  void apply(const SeqWork& work, const SeqOutcome& outcome);

  const std::vector<Sequence*>& running_by_rank();
  Sequence& get(SeqId seq);
  int32_t blocks_for(int32_t positions) const {
    return (positions + config_.limits.block_tokens - 1) / config_.limits.block_tokens;
  }
  double uncached_ms(const Sequence& seq) const;

  const SchedulerConfig config_;
  BlockPool pool_;
  CostModel cost_;
  std::map<SeqId, Sequence> sequences_;
  std::set<SeqId> waiting_;
  std::set<SeqId> running_;                  // kPrefilling and kDecoding
  int32_t leaving_ = 0;
  std::map<BlockHash, SeqId> in_the_making_;  // blocks that a prefilling sequence will publish
  std::vector<FairShare> shares_;            // one a priority
  std::vector<SeqId> ends_;                  // to be told to the worker
  std::array<InFlight, Worker::kPlansMax> in_flight_;  // the oldest first, plans_in_flight_ of them
  int32_t plans_in_flight_ = 0;
  StepId next_step_{1};
  SeqId last_seq_{0};
  int32_t starts_since_reserved_ = 0;
  int32_t steps_without_prompt_ = 0;  // in a row, while prompts were there
  Counters counters_;
  // Memory of one call, kept for the next.
  Draft draft_;
  std::vector<Sequence*> by_rank_;
  std::vector<SeqId> prompts_;
  std::vector<PromptQueue> queues_;          // one a priority
  std::vector<StepPlan> spare_plans_;
};

}  // namespace lineshaft::policy
