// Engine: one replica as an actor: events come in, plans go to the Worker, TokenEvents go out.
//
// Thin: every choice is policy's. No threads, locks or clocks: one thread calls it, each call runs
// to its end and says what time it is; `now` must not go backwards. Equal config and equal calls
// give equal plans and events. An answer in which nobody ends, and a plan in which nobody starts,
// allocate nothing (events with log-probs aside, which carry them).
//
// The owner applies all events that are there (on_...), then calls maybe_plan once, then sleeps
// until the next event or next_wakeup(). Events that come together are planned together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/doors/worker.h"
#include "core/request.h"
#include "core/token_event.h"
#include "node/hash_chain.h"
#include "node/stats.h"
#include "policy/admission.h"
#include "policy/scheduler.h"

namespace lineshaft::node {

// Where events go; called from inside on_... and maybe_plan, in order. Must not block and must
// not call the engine.
class EventOut {
 public:
  virtual ~EventOut() = default;
  virtual void deliver(TokenEvent&& event) = 0;
};

struct EngineConfig {
  policy::SchedulerConfig scheduler;   // its limits are the engine's
  policy::TenantLimits default_limits;
  std::map<std::string, policy::TenantLimits> tenants;
  int32_t plans_ahead_max = 2;         // plans without an answer, 1 to Worker::kPlansMax
  Hash128 model_fingerprint{};         // these name what block bytes depend on (core/block.h)
  std::string numerics_profile;
  std::string kv_type;
};

// kInvalidArgument naming the field.
Status validate(const EngineConfig& config);

class Engine {
 public:
  // `config` must be valid; both doors outlive the engine.
  Engine(EngineConfig config, Worker& worker, EventOut& out);

  // A request with an id that rises from call to call. It is accepted (kAccepted at once, with
  // the prompt tokens that are cached now) or refused (one kFinish with kError: codes of
  // policy/admission.h, kUnavailable while draining, kDeadlineExceeded).
  void on_submit(std::shared_ptr<const Request> request, Instant now);

  // Finishes what has not finished, with kCancelled, before it returns. Unknown ids are ignored.
  void on_cancel(RequestId request, Instant now);
  void on_cancel_choice(RequestId request, int32_t choice, Instant now);

  // The worker's answer to the oldest plan without one.
  void on_step_done(StepResult&& result, Instant now);

  // Finishes with kError (kDeadlineExceeded) what is beyond its deadline.
  void on_timer(Instant now);

  // Starts plans while fewer than plans_ahead_max have no answer and there is work for one.
  void maybe_plan(Instant now);

  // When on_timer is wanted: the earliest deadline; never() when there is none.
  Instant next_wakeup() const;

  // From now on requests are refused; those accepted are finished.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // No request is unfinished and no plan is without an answer.
  bool idle() const { return requests_.empty() && scheduler_.plans_in_flight() == 0; }

  EngineStats stats() const;
  const policy::Scheduler& scheduler() const { return scheduler_; }

 private:
  // An unfinished choice.
  struct Choice {
    SeqId seq;
    HashChain chain;
    int32_t generated = 0;
    Instant last_token{};
  };
  struct Live {
    std::shared_ptr<const Request> request;
    Instant arrival;
    std::map<int32_t, Choice> choices;  // unfinished ones
    int32_t cached_tokens = 0;
    bool started = false;
    bool got_token = false;
  };
  using LiveMap = std::map<RequestId, Live>;

  Status admit(const Request& request, Instant now);
  void refuse(const Request& request, Status why);
  void accept(std::shared_ptr<const Request> request, Instant now);
  void start_plan(StepPlan plan, Instant now);
  policy::SeqOutcome take_result(SeqResult& result, Instant now);
  void deliver_token(Live& live, int32_t choice, SeqResult& result, Instant now);
  // How a choice ends: the reason, and what goes with it.
  struct Ending {
    FinishReason finish = FinishReason::kCancelled;
    TokenId stop_token = -1;
    Status error;
  };
  // Sends kFinish and forgets the choice; the request too, with its last one.
  void finish(LiveMap::iterator it, int32_t choice, const Ending& ending, Instant now);
  void finish_all(RequestId request, const Ending& ending, Instant now);

  const EngineConfig config_;
  Worker& worker_;
  EventOut& out_;
  policy::Admission admission_;
  policy::Scheduler scheduler_;
  LiveMap requests_;
  std::map<SeqId, std::pair<RequestId, int32_t>> sequences_;  // of unfinished choices
  std::set<std::pair<Instant, RequestId>> deadlines_;
  int32_t waiting_requests_ = 0;
  SeqId next_seq_{1};
  bool draining_ = false;
  EngineStats stats_;               // its totals; the rest is filled in by stats()
  std::vector<policy::SeqOutcome> outcomes_;  // of one answer, kept for its memory
};

}  // namespace lineshaft::node
