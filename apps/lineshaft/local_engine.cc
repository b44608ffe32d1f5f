#include "lineshaft/local_engine.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "kernels/types.h"
#include "lineshaft/print.h"
#include "lineshaft/terminal.h"
#include "worker/cpu_worker.h"
#include "worker/warmup.h"

namespace lineshaft::app {
namespace {

constexpr size_t kInboxMax = 4096;
constexpr int kSubmitsMax = 1024;   // of these: the rest is for cancels and step results
constexpr Duration kIdleWait = Duration::seconds(3600);

// A step pays its base cost (reading the weights) once, whatever is in it: eight times that keeps
// the loss of cutting prompts into chunks near an eighth, and a stream waits no longer than a
// person notices on small models.
double default_step_ms(const StepCost& cost) {
  return std::clamp(8.0 * cost.base_ms, 12.0, 250.0);
}

// Without decode rows only a request that arrives waits for the step: long enough for the rows
// that use the kernels fully (512 of a model of 135 million parameters on two cores).
constexpr double kPromptStepMsMin = 150.0;

worker::StepRunnerOptions runner_options(const LoadedModel& model, const Config& config) {
  worker::StepRunnerOptions options;
  options.forward = forward_options(config);
  options.context_tokens = model.plan.context_tokens;
  options.kv_blocks = model.plan.kv_blocks;
  options.thread_count = thread_count(config);
  return options;
}

// What does not depend on the model.
node::EngineConfig engine_config(const Config& config, const StepCost& cost) {
  node::EngineConfig out;
  Limits& limits = out.scheduler.limits;
  limits.block_tokens = config.memory.block_tokens;
  limits.sequences_max = config.scheduling.max_seqs;
  limits.queue_max = config.scheduling.queue_max;
  limits.step_tokens_max = config.scheduling.step_tokens_max;
  out.scheduler.cost = cost;
  const bool chosen = config.scheduling.step_ms > 0;
  out.scheduler.step_ms = chosen ? config.scheduling.step_ms : default_step_ms(cost);
  out.scheduler.prompt_step_ms =
      std::max(chosen ? 0.0 : kPromptStepMsMin, 2 * out.scheduler.step_ms);
  out.plans_ahead_max = config.scheduling.plan_ahead ? 2 : 1;
  out.numerics_profile = config.model.profile;
  return out;
}

node::EngineConfig engine_config(const LoadedModel& model, const Config& config,
                                 const StepCost& cost) {
  node::EngineConfig out = engine_config(config, cost);
  out.scheduler.limits.kv_blocks = model.plan.kv_blocks;
  out.scheduler.limits.context_tokens = model.plan.context_tokens;
  out.model_fingerprint = model.open.spec.fingerprint;
  out.kv_type = kernels::name_of(forward_options(config).kv_type);
  return out;
}

}  // namespace

StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::start(const LoadedModel& model,
                                                          const Config& config, Options options) {
  if (config.scheduling.step_tokens_max < config.scheduling.max_seqs) {
    return invalid_argument("--step-tokens-max {} is less than --max-seqs {}",
                            config.scheduling.step_tokens_max, config.scheduling.max_seqs);
  }
  LS_ASSIGN_OR_RETURN(auto runner,
                      worker::StepRunner::create(model.weights, model.open.tokenizer->vocab(),
                                                 runner_options(model, config)));
  const bool talk = stderr_is_tty();
  if (talk) print(stderr, "warming up");
  const StepCost cost = worker::warm_up(*runner);
  if (talk) print(stderr, "\r\033[K");
  node::EngineConfig engine = engine_config(model, config, cost);
  engine.tenants = std::move(options.tenants);
  LS_RETURN_IF_ERROR(node::validate(engine));
  log_event(Severity::kInfo, "warm_up",
            {{"base_ms", cost.base_ms},
             {"row_ms", cost.row_ms},
             {"sample_ms", cost.sample_ms},
             {"pair_ms", cost.pair_ms},
             {"step_ms", engine.scheduler.step_ms}});
  const WorkerMaker make_worker = [&runner](std::function<void(StepResult&&)> on_result) {
    return std::make_unique<worker::CpuWorker>(std::move(runner), std::move(on_result));
  };
  return std::unique_ptr<LocalEngine>(
      new LocalEngine(std::move(engine), make_worker, options.metrics));
}

StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::start_scripted(
    Script script, std::shared_ptr<const recipe::Tokenizer> tokenizer, int32_t context_tokens,
    const Config& config, Options options) {
  const StepCost cost{.base_ms = 1.0, .row_ms = 0.01, .sample_ms = 0.01, .pair_ms = 0.0};
  node::EngineConfig engine = engine_config(config, cost);
  Limits& limits = engine.scheduler.limits;
  limits.context_tokens = context_tokens;
  limits.kv_blocks = 4 * (context_tokens / limits.block_tokens + 1);
  engine.model_fingerprint = tokenizer->vocab()->fingerprint;
  engine.kv_type = "none";
  engine.tenants = std::move(options.tenants);
  LS_RETURN_IF_ERROR(node::validate(engine));
  const WorkerMaker make_worker = [&](std::function<void(StepResult&&)> on_result) {
    return std::make_unique<ScriptedWorker>(std::move(script), std::move(tokenizer),
                                            context_tokens, std::move(on_result));
  };
  return std::unique_ptr<LocalEngine>(
      new LocalEngine(std::move(engine), make_worker, options.metrics));
}

LocalEngine::LocalEngine(node::EngineConfig config, const WorkerMaker& make_worker,
                         Metrics* metrics)
    : step_ms_(config.scheduler.step_ms), inbox_(kInboxMax) {
  if (metrics != nullptr) metrics_ = std::make_unique<EngineMetrics>(*metrics);
  worker_ = make_worker([this](StepResult&& result) { push(std::move(result)); });
  engine_ = std::make_unique<node::Engine>(std::move(config), *worker_,
                                           static_cast<node::EventOut&>(*this));
  if (metrics_) metrics_->publish(engine_->stats());
  thread_ = std::thread([this] { loop(); });
}

LocalEngine::~LocalEngine() {
  push(Stop{});
  thread_.join();
  inbox_.close();
}

Status LocalEngine::submit(std::shared_ptr<const Request> request,
                           std::shared_ptr<TokenListener> listener) {
  if (queued_submits_.fetch_add(1) >= kSubmitsMax) {
    queued_submits_.fetch_sub(1);
    return resource_exhausted("too many requests arrive at once; try again");
  }
  push(Submit{std::move(request), std::move(listener)});
  return ok_status();
}

void LocalEngine::cancel(RequestId request) { push(Cancel{request, -1}); }

void LocalEngine::cancel_choice(RequestId request, int32_t choice) {
  push(Cancel{request, choice});
}

void LocalEngine::push(Event event) {
  // Full only while thousands of cancels are queued; the engine's thread empties it in no time.
  while (!inbox_.try_push(std::move(event))) std::this_thread::yield();
}

void LocalEngine::loop() {
  bool running = true;
  while (running) {
    const Instant wakeup = engine_->next_wakeup();
    const Duration wait = wakeup == Instant::never() ? kIdleWait : wakeup - clock_.now();
    auto event = inbox_.pop_for(std::max(wait, Duration{}));
    for (; event; event = inbox_.try_pop()) running = apply(std::move(*event)) && running;
    const Instant now = clock_.now();
    if (now >= engine_->next_wakeup()) engine_->on_timer(now);
    engine_->maybe_plan(now);
    if (metrics_) metrics_->publish(engine_->stats());
    send();
  }
  // Steps in flight answer into the inbox; the engine must outlive them.
  while (!engine_->idle()) {
    auto event = inbox_.pop_for(Duration::seconds(1));
    if (event && std::holds_alternative<StepResult>(*event)) apply(std::move(*event));
  }
}

bool LocalEngine::apply(Event&& event) {
  const Instant now = clock_.now();
  if (auto* submit = std::get_if<Submit>(&event)) {
    queued_submits_.fetch_sub(1);
    Audience audience;
    audience.listener = std::move(submit->listener);
    audience.unfinished_choices = submit->request->sampling.n;
    audiences_.emplace(submit->request->id.value, std::move(audience));
    engine_->on_submit(std::move(submit->request), now);
  } else if (auto* cancel = std::get_if<Cancel>(&event)) {
    if (cancel->choice < 0) {
      engine_->on_cancel(cancel->request, now);
    } else {
      engine_->on_cancel_choice(cancel->request, cancel->choice, now);
    }
  } else if (auto* result = std::get_if<StepResult>(&event)) {
    engine_->on_step_done(std::move(*result), now);
  } else {
    engine_->drain();
    std::vector<uint64_t> ids;
    for (const auto& [id, audience] : audiences_) ids.push_back(id);
    for (const uint64_t id : ids) engine_->on_cancel({id}, now);
    return false;
  }
  return true;
}

void LocalEngine::deliver(TokenEvent&& event) {
  const auto it = audiences_.find(event.request.value);
  if (it == audiences_.end()) return;
  Audience& audience = it->second;
  const bool finish = event.kind == TokenEvent::Kind::kFinish;
  if (event.kind == TokenEvent::Kind::kAccepted) audience.accepted = true;
  if (finish) --audience.unfinished_choices;
  // A refused request gets one kFinish, whatever its n.
  const bool last = finish && (audience.unfinished_choices == 0 || !audience.accepted);
  outgoing_.emplace_back(audience.listener, std::move(event));
  if (last) audiences_.erase(it);
}

void LocalEngine::send() {
  for (auto& [listener, event] : outgoing_) listener->deliver(std::move(event));
  outgoing_.clear();
}

}  // namespace lineshaft::app
