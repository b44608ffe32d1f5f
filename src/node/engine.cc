#include "node/engine.h"

#include <algorithm>

#include "base/check.h"

namespace lineshaft::node {

Status validate(const EngineConfig& config) {
  LS_RETURN_IF_ERROR(policy::validate(config.scheduler));
  if (config.plans_ahead_max < 1 || config.plans_ahead_max > Worker::kPlansMax) {
    return invalid_argument("plans_ahead_max is {}, not in 1 to {}", config.plans_ahead_max,
                            Worker::kPlansMax);
  }
  return ok_status();
}

Engine::Engine(EngineConfig config, Worker& worker, EventOut& out)
    : config_(std::move(config)),
      worker_(worker),
      out_(out),
      admission_({config_.scheduler.limits, config_.default_limits, config_.tenants}),
      scheduler_(config_.scheduler) {
  const Status valid = validate(config_);
  LS_CHECK(valid.ok(), "{}", message_of(valid));
}

void Engine::on_submit(std::shared_ptr<const Request> request, Instant now) {
  LS_CHECK(!requests_.contains(request->id));
  Status status = admit(*request, now);
  if (status.ok()) {
    accept(std::move(request), now);
  } else {
    refuse(*request, std::move(status));
  }
}

Status Engine::admit(const Request& request, Instant now) {
  if (draining_) return unavailable("the server is shutting down");
  if (request.deadline <= now) {
    return make_status(StatusCode::kDeadlineExceeded, "the deadline had passed on arrival");
  }
  policy::Order order;
  order.tenant = request.tenant;
  order.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  order.max_tokens = request.sampling.max_tokens;
  order.choices = request.sampling.n;
  return admission_.admit(order, waiting_requests_, scheduler_.backlog(), now);
}

void Engine::refuse(const Request& request, Status why) {
  ++stats_.requests_refused;
  TokenEvent event;
  event.kind = TokenEvent::Kind::kFinish;
  event.request = request.id;
  event.finish = FinishReason::kError;
  event.error = std::move(why);
  out_.deliver(std::move(event));
}

void Engine::accept(std::shared_ptr<const Request> request, Instant now) {
  const int32_t block_tokens = config_.scheduler.limits.block_tokens;
  const int32_t prompt_tokens = static_cast<int32_t>(request->prompt.size());
  const BlockHash root = chain_root(config_.model_fingerprint, config_.numerics_profile,
                                    config_.kv_type, request->cache_salt);
  const std::vector<BlockHash> hashes = hash_blocks(root, request->prompt, block_tokens);
  Live live;
  live.arrival = now;
  live.cached_tokens = scheduler_.cached_tokens(hashes, prompt_tokens);
  for (int32_t choice = 0; choice < request->sampling.n; ++choice) {
    const SeqId seq = next_seq_;
    ++next_seq_.value;
    live.choices.emplace(choice,
                         Choice{seq, HashChain(root, hashes, request->prompt, block_tokens)});
    sequences_.emplace(seq, std::pair(request->id, choice));
    scheduler_.add({seq, choice, request->priority, now, prompt_tokens,
                    prompt_tokens + request->sampling.max_tokens, hashes});
  }
  ++waiting_requests_;
  ++stats_.requests_accepted;
  if (request->deadline != Instant::never()) deadlines_.emplace(request->deadline, request->id);

  TokenEvent event;
  event.kind = TokenEvent::Kind::kAccepted;
  event.request = request->id;
  event.usage.prompt_tokens = prompt_tokens;
  event.usage.cached_tokens = live.cached_tokens;
  const RequestId id = request->id;
  live.request = std::move(request);
  requests_.emplace(id, std::move(live));
  out_.deliver(std::move(event));
}

void Engine::on_cancel(RequestId request, Instant now) { finish_all(request, {}, now); }

void Engine::on_cancel_choice(RequestId request, int32_t choice, Instant now) {
  const auto it = requests_.find(request);
  if (it == requests_.end() || !it->second.choices.contains(choice)) return;
  finish(it, choice, {}, now);
}

void Engine::on_timer(Instant now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Ending late;
    late.finish = FinishReason::kError;
    late.error = make_status(StatusCode::kDeadlineExceeded,
                             "the deadline passed before the answer was complete");
    finish_all(deadlines_.begin()->second, late, now);
  }
}

Instant Engine::next_wakeup() const {
  return deadlines_.empty() ? Instant::never() : deadlines_.begin()->first;
}

void Engine::maybe_plan(Instant now) {
  on_timer(now);
  while (scheduler_.plans_in_flight() < config_.plans_ahead_max) {
    auto plan = scheduler_.plan(now);
    if (!plan) break;
    start_plan(std::move(*plan), now);
  }
  // Whatever is unfinished has a next event: the answer to a plan.
  LS_CHECK(requests_.empty() || scheduler_.plans_in_flight() > 0,
           "{} requests are unfinished and no step runs", requests_.size());
}

void Engine::start_plan(StepPlan plan, Instant now) {
  for (SeqStart& start : plan.starts) {
    const auto [id, choice] = sequences_.at(start.seq);
    Live& live = requests_.at(id);
    start.request = live.request;
    if (choice == 0) live.cached_tokens = scheduler_.find(start.seq)->cached_tokens;
    if (live.started) continue;
    live.started = true;
    --waiting_requests_;
    stats_.queue_time.add(now - live.arrival);
    stats_.prompt_tokens += live.request->prompt.size();
    stats_.cached_tokens += static_cast<uint64_t>(live.cached_tokens);
  }
  worker_.start(std::move(plan));
}

void Engine::on_step_done(StepResult&& result, Instant now) {
  const bool has_prompt = scheduler_.oldest_has_prompt();
  (has_prompt ? stats_.mixed_step_time : stats_.decode_step_time).add(result.compute);
  outcomes_.clear();
  for (SeqResult& r : result.results) outcomes_.push_back(take_result(r, now));
  scheduler_.on_step_done(result.step, outcomes_, result.compute);
  result.plan.results = std::move(result.results);
  scheduler_.recycle(std::move(result.plan));
}

// Tokens of a choice that has finished already (cancelled, late) go nowhere.
policy::SeqOutcome Engine::take_result(SeqResult& result, Instant now) {
  policy::SeqOutcome outcome;
  outcome.seq = result.seq;
  outcome.skipped = result.skipped;
  const auto found = sequences_.find(result.seq);
  if (result.skipped || found == sequences_.end()) return outcome;
  const auto [id, choice] = found->second;
  const auto it = requests_.find(id);
  const bool stopped = result.ended && result.finish == FinishReason::kStop;
  if (result.sampled && !stopped) {
    Choice& c = it->second.choices.at(choice);
    outcome.hash = c.chain.append(result.token);
    outcome.token = true;
    deliver_token(it->second, choice, result, now);
    outcome.ended = c.generated == it->second.request->sampling.max_tokens;
  }
  outcome.ended = outcome.ended || result.ended;
  if (outcome.ended) {
    Ending ending;
    ending.finish = result.ended ? result.finish : FinishReason::kLength;
    if (stopped && result.sampled) ending.stop_token = result.token;
    if (ending.finish == FinishReason::kError) {
      ending.error = make_status(StatusCode::kInternal,
                                 "no token could be chosen: the logits were not finite numbers");
    }
    finish(it, choice, ending, now);
  }
  return outcome;
}

void Engine::deliver_token(Live& live, int32_t choice, SeqResult& result, Instant now) {
  Choice& c = live.choices.at(choice);
  if (!live.got_token) stats_.time_to_first_token.add(now - live.arrival);
  if (c.generated > 0) stats_.inter_token_latency.add(now - c.last_token);
  live.got_token = true;
  c.last_token = now;
  ++stats_.generated_tokens;
  admission_.charge(live.request->tenant, 1, now);
  TokenEvent event;
  event.kind = TokenEvent::Kind::kToken;
  event.request = live.request->id;
  event.choice = choice;
  event.position = c.generated++;
  event.token = result.token;
  event.logprob = result.logprob;
  event.top = std::move(result.top);
  out_.deliver(std::move(event));
}

void Engine::finish(LiveMap::iterator it, int32_t choice, const Ending& ending, Instant now) {
  Live& live = it->second;
  const auto node = live.choices.extract(choice);
  const Choice& c = node.mapped();
  TokenEvent event;
  event.kind = TokenEvent::Kind::kFinish;
  event.request = it->first;
  event.choice = choice;
  event.finish = ending.finish;
  event.stop_token = ending.stop_token;
  event.error = ending.error;
  event.usage.prompt_tokens = static_cast<int32_t>(live.request->prompt.size());
  event.usage.cached_tokens = live.cached_tokens;
  event.usage.generated_tokens = c.generated;
  scheduler_.end(c.seq);
  sequences_.erase(c.seq);
  if (live.choices.empty()) {
    if (!live.started) --waiting_requests_;
    ++stats_.requests_finished;
    if (ending.finish == FinishReason::kCancelled) ++stats_.requests_cancelled;
    stats_.request_time.add(now - live.arrival);
    admission_.leave(live.request->tenant);
    deadlines_.erase({live.request->deadline, it->first});
    requests_.erase(it);
  }
  out_.deliver(std::move(event));
}

void Engine::finish_all(RequestId request, const Ending& ending, Instant now) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  // The last finish() forgets the request, and `it` with it.
  for (size_t left = it->second.choices.size(); left > 0; --left) {
    finish(it, it->second.choices.begin()->first, ending, now);
  }
}

EngineStats Engine::stats() const {
  EngineStats out = stats_;
  out.requests_waiting = waiting_requests_;
  out.requests_running = static_cast<int32_t>(requests_.size()) - waiting_requests_;
  out.sequences_running = scheduler_.running();
  out.sequences_waiting = scheduler_.waiting();
  out.blocks_free = scheduler_.ledger().free();
  out.blocks_cached = scheduler_.ledger().cached();
  out.blocks_held = scheduler_.ledger().held();
  out.cost_correction_decode = scheduler_.cost_model().correction(false);
  out.cost_correction_prompt = scheduler_.cost_model().correction(true);
  out.scheduler = scheduler_.counters();
  return out;
}

}  // namespace lineshaft::node
