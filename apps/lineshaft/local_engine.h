// LocalEngine: RequestSink over one node::Engine in this process, on a thread of its own.
//
// Owns the engine, its worker and the thread that calls the engine; gives it time and carries its
// events to listeners. Decides nothing.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/queue.h"
#include "base/status.h"
#include "core/doors/request_sink.h"
#include "core/doors/worker.h"
#include "lineshaft/config.h"
#include "lineshaft/engine_metrics.h"
#include "lineshaft/scripted_worker.h"
#include "lineshaft/wiring.h"
#include "node/engine.h"

namespace lineshaft::app {

class LocalEngine final : public RequestSink, private node::EventOut {
 public:
  struct Options {
    std::map<std::string, policy::TenantLimits> tenants;
    Metrics* metrics = nullptr;   // outlives the engine; nullptr: nothing is published
  };

  // Reserves the KV pool, warms up and measures the machine (a fraction of a second), then starts
  // the thread. kResourceExhausted, kInvalidArgument: the settings do not go together.
  static StatusOr<std::unique_ptr<LocalEngine>> start(const LoadedModel& model,
                                                      const Config& config, Options options);
  static StatusOr<std::unique_ptr<LocalEngine>> start(const LoadedModel& model,
                                                      const Config& config) {
    return start(model, config, Options{});
  }

  // The same engine over a worker that says what a script tells it to. Nothing is measured: steps
  // cost what a small model's do. The KV pool is counted, not reserved.
  static StatusOr<std::unique_ptr<LocalEngine>> start_scripted(
      Script script, std::shared_ptr<const recipe::Tokenizer> tokenizer, int32_t context_tokens,
      const Config& config, Options options);

  // Cancels what is unfinished and ends the thread. Nobody may submit any more.
  ~LocalEngine() override;

  RequestId next_id() override { return {next_id_.fetch_add(1) + 1}; }
  Status submit(std::shared_ptr<const Request> request,
                std::shared_ptr<TokenListener> listener) override;
  void cancel(RequestId request) override;
  void cancel_choice(RequestId request, int32_t choice) override;

  double step_ms() const { return step_ms_; }

 private:
  struct Submit {
    std::shared_ptr<const Request> request;
    std::shared_ptr<TokenListener> listener;
  };
  struct Cancel {
    RequestId request;
    int32_t choice = -1;   // -1: all
  };
  struct Stop {};
  using Event = std::variant<Submit, Cancel, StepResult, Stop>;

  // Who hears of a request.
  struct Audience {
    std::shared_ptr<TokenListener> listener;
    int32_t unfinished_choices = 0;
    bool accepted = false;
  };

  // Makes the worker, which answers by the function that it is given.
  using WorkerMaker =
      std::function<std::unique_ptr<Worker>(std::function<void(StepResult&&)> on_result)>;

  LocalEngine(node::EngineConfig config, const WorkerMaker& make_worker, Metrics* metrics);
  void loop();
  // False: the loop ends.
  bool apply(Event&& event);
  // Keeps events until the next step is on its way and the metrics count them, then send()s them:
  // the worker does not wait for listeners, and who has an answer finds it in the metrics.
  void deliver(TokenEvent&& event) override;
  void send();
  // For events that must not be lost; the engine's thread never waits, so neither does this.
  void push(Event event);

  SystemClock clock_;
  double step_ms_ = 0.0;
  std::atomic<uint64_t> next_id_{0};
  std::atomic<int> queued_submits_{0};
  BoundedQueue<Event> inbox_;
  std::unordered_map<uint64_t, Audience> audiences_;   // engine thread only
  std::vector<std::pair<std::shared_ptr<TokenListener>, TokenEvent>> outgoing_;  // likewise
  std::unique_ptr<EngineMetrics> metrics_;
  std::unique_ptr<node::Engine> engine_;               // engine thread only
  std::unique_ptr<Worker> worker_;                     // dies before what its callback uses
  std::thread thread_;
};

}  // namespace lineshaft::app
