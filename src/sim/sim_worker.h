// SimWorker: a Worker whose steps take virtual time and whose KV is a model of the arena: each
// slot remembers the token it was written for. A sampled token is a hash of the prefix as read
// back through the plan's block table. Whatever a plan gets wrong is noted as a violation.
//
// Knows nothing of policy: it believes plans and shows what follows from them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "core/doors/worker.h"
#include "core/limits.h"
#include "sim/faults.h"
#include "sim/world.h"

namespace lineshaft::sim {

class SimWorker final : public Worker {
 public:
  using Answer = std::function<void(StepResult&&)>;

  // `cost` is what steps really take, before noise and faults. Calls `answer` from World events.
  SimWorker(World& world, const Limits& limits, const StepCost& cost, const WorkerFaults& faults,
            RngKey key, Answer answer);

  void start(StepPlan plan) override;

  // Each is a sentence; none in a right run.
  const std::vector<std::string>& violations() const { return violations_; }
  // Folds every plan in, in order.
  uint64_t plans_hash() const { return plans_hash_; }
  uint64_t steps() const { return steps_; }

 private:
  struct Contents {
    std::vector<TokenId> tokens;  // prompt and answer
    int32_t prompt_tokens = 0;
    int32_t max_tokens = 0;
    uint64_t seed = 0;
    int32_t choice = 0;
    bool ended = false;
  };

  void run(const StepPlan& plan, Duration took);
  void check_shape(const StepPlan& plan);
  SeqResult run_work(const StepPlan& plan, const SeqWork& work);
  void sample(Contents& contents, const std::vector<TokenId>& prefix, SeqResult* result);
  std::vector<TokenId> read_back(const StepPlan& plan, const SeqWork& work) const;
  Duration duration_of(const StepPlan& plan) const;
  TokenId& slot(const StepPlan& plan, const SeqWork& work, int32_t position);
  void fold(const StepPlan& plan);
  void violation(std::string sentence);

  World& world_;
  const Limits limits_;
  const StepCost cost_;
  const WorkerFaults faults_;
  const RngKey key_;
  const Answer answer_;
  std::vector<TokenId> arena_;  // [kv_blocks, block_tokens]; -1: never written
  std::map<SeqId, Contents> contents_;
  Instant busy_until_;
  int32_t unanswered_ = 0;
  uint64_t steps_ = 0;
  uint64_t plans_hash_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace lineshaft::sim
