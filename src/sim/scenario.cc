#include "sim/scenario.h"

#include <fmt/format.h>

#include "sim/checkers/block_conservation.h"
#include "sim/checkers/fairness.h"
#include "sim/dice.h"
#include "sim/sim_worker.h"
#include "sim/world.h"

namespace lineshaft::sim {
namespace {

// Far above what the largest scenario needs (some 10,000): a run that gets here makes no progress.
constexpr uint64_t kEventsMax = 2'000'000;

// One run: the engine, its world, and who watches.
class Simulation final : public node::EventOut {
 public:
  Simulation(const Scenario& scenario, const std::vector<Caller>& callers)
      : callers_(callers),
        worker_(world_, scenario.engine.scheduler.limits, scenario.true_cost, scenario.worker,
                RngKey(scenario.seed).split(1),
                [this](StepResult&& result) {
                  engine_.on_step_done(std::move(result), world_.now());
                  after_event();
                }),
        engine_(scenario.engine, worker_, *this),
        tokens_(callers),
        fairness_(scenario.progress_bound) {}

  Report run() {
    for (const Caller& caller : callers_) schedule(caller);
    uint64_t events = 0;
    while (world_.step()) {
      if (++events < kEventsMax) continue;
      report_.violations.push_back("no end after 2,000,000 events");
      break;
    }
    if (!engine_.idle()) report_.violations.push_back("the engine is not idle at the end");
    tokens_.at_end();
    return report();
  }

  void deliver(TokenEvent&& event) override {
    const Instant now = world_.now();
    log_.add(event, now);
    tokens_.on_event(event, now);
    fairness_.on_event(event, now);
    const Caller& caller = callers_[event.request.value - 1];
    if (event.kind == TokenEvent::Kind::kToken && event.choice == caller.lost_choice &&
        event.position == caller.cancel_on_token) {
      world_.at(now, [this, &caller] { cancel_choice(caller); });
    }
  }

 private:
  void schedule(const Caller& caller) {
    world_.at(caller.arrival, [this, &caller] {
      engine_.on_submit(caller.request, world_.now());
      after_event();
    });
    if (caller.cancel != Instant::never()) {
      world_.at(caller.cancel, [this, &caller] {
        tokens_.on_cancel(caller.request->id, -1);
        engine_.on_cancel(caller.request->id, world_.now());
        after_event();
      });
    }
    if (caller.cancel_choice != Instant::never()) {
      world_.at(caller.cancel_choice, [this, &caller] { cancel_choice(caller); });
    }
  }

  void cancel_choice(const Caller& caller) {
    tokens_.on_cancel(caller.request->id, caller.lost_choice);
    engine_.on_cancel_choice(caller.request->id, caller.lost_choice, world_.now());
    after_event();
  }

  void after_event() {
    engine_.maybe_plan(world_.now());
    engine_.scheduler().audit();
    const Instant wakeup = engine_.next_wakeup();
    if (wakeup == Instant::never() || wakeup == timer_) return;
    timer_ = wakeup;
    world_.at(wakeup, [this] {
      engine_.on_timer(world_.now());
      after_event();
    });
  }

  Report report() {
    const policy::BlockLedger& ledger = engine_.scheduler().ledger();
    check_block_conservation(ledger.free(), ledger.cached(), ledger.held(), ledger.total(),
                             &report_.violations);
    for (const auto* list : {&worker_.violations(), &tokens_.violations(),
                             &fairness_.violations()}) {
      report_.violations.insert(report_.violations.end(), list->begin(), list->end());
    }
    report_.events_hash = log_.value();
    report_.plans_hash = worker_.plans_hash();
    report_.refused = tokens_.refused();
    report_.late = tokens_.late();
    report_.cancelled = tokens_.cancelled();
    report_.first_token = fairness_.first_token();
    report_.gap_max = fairness_.gap_max();
    report_.end = world_.now();
    report_.stats = engine_.stats();
    report_.answers = tokens_.answers();
    return std::move(report_);
  }

  const std::vector<Caller>& callers_;  // callers_[i] has request id i + 1
  World world_;
  SimWorker worker_;
  node::Engine engine_;
  TokenStreamChecker tokens_;
  FairnessChecker fairness_;
  EventLogHash log_;
  Instant timer_;
  Report report_;
};

Limits draw_limits(Dice& dice) {
  Limits limits;
  limits.block_tokens = 4 << dice.between(0, 2);
  limits.context_tokens = dice.between(32, 200);
  const int32_t blocks_alone =
      (limits.context_tokens + limits.block_tokens - 1) / limits.block_tokens;
  limits.sequences_max = dice.between(1, 8);
  switch (dice.between(0, 2)) {
    case 0: limits.kv_blocks = dice.between(2, blocks_alone + 2); break;
    case 1: limits.kv_blocks = dice.between(blocks_alone, 3 * blocks_alone); break;
    default: limits.kv_blocks = blocks_alone * limits.sequences_max + 64; break;
  }
  limits.queue_max = dice.between(2, 24);
  limits.step_tokens_max = dice.between(limits.sequences_max, 128);
  return limits;
}

// Each kind of fault is there in half of the runs.
CallerFaults draw_caller_faults(Dice& dice) {
  const auto maybe = [&](int32_t permille_max) {
    return dice.chance(500) ? dice.between(1, permille_max) : 0;
  };
  CallerFaults faults;
  faults.cancel_permille = maybe(600);
  faults.cancel_choice_permille = maybe(400);
  faults.cancel_on_token_permille = maybe(400);
  faults.deadline_permille = maybe(400);
  faults.impossible_permille = maybe(200);
  return faults;
}

}  // namespace

Scenario draw_scenario(uint64_t seed) {
  Dice dice(RngKey(seed).split(2));
  Scenario out;
  out.seed = seed;
  policy::SchedulerConfig& scheduler = out.engine.scheduler;
  scheduler.limits = draw_limits(dice);
  scheduler.step_ms = dice.between(2, 60);
  scheduler.prompt_step_ms = scheduler.step_ms * dice.between(1, 4);
  scheduler.age_bound = Duration::milliseconds(dice.between(50, 2000));
  out.true_cost.base_ms = dice.between(0, 50) * 0.1;
  out.true_cost.row_ms = dice.between(1, 20) * 0.1;
  out.true_cost.sample_ms = dice.between(0, 10) * 0.1;
  out.true_cost.pair_ms = dice.between(0, 10) * 0.001;
  const double wrong = dice.between(5, 20) * 0.1;
  scheduler.cost = {out.true_cost.base_ms * wrong, out.true_cost.row_ms * wrong,
                    out.true_cost.sample_ms * wrong, out.true_cost.pair_ms * wrong};
  out.engine.plans_ahead_max = dice.between(1, Worker::kPlansMax);
  if (dice.chance(250)) {
    out.engine.default_limits.requests_max = dice.between(1, 8);
    out.engine.default_limits.tokens_per_minute = dice.between(100, 20000);
  }
  out.worker.noise_permille = dice.between(0, 300);
  out.worker.slow_step_permille = dice.chance(500) ? dice.between(1, 100) : 0;
  WorkloadConfig& load = out.workload;
  load.requests = dice.between(1, 24);
  load.gap_ms_max = dice.between(0, 60);
  load.prompt_tokens_max = dice.between(0, 120);
  load.max_tokens_max = dice.between(1, 80);
  load.prefix_groups = dice.between(0, 3);
  load.prefix_tokens_max = dice.between(1, 80);
  load.follow_up_permille = dice.between(0, 500);
  load.choices_max = dice.between(1, 3);
  load.priorities = dice.chance(500);
  load.faults = draw_caller_faults(dice);
  return out;
}

Report run(const Scenario& scenario, const std::vector<Caller>& callers) {
  return Simulation(scenario, callers).run();
}

Report run(const Scenario& scenario) {
  const std::vector<Caller> callers =
      draw_workload(scenario.workload, scenario.engine.scheduler.limits,
                    RngKey(scenario.seed).split(3));
  return run(scenario, callers);
}

}  // namespace lineshaft::sim
