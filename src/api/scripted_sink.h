// ScriptedSink: a RequestSink for tests that answers with given tokens at a given pace, on a thread
// of its own, and can be told to fail in every way that a real one can.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/doors/request_sink.h"

namespace lineshaft::api {

// What a request is answered with.
struct Script {
  std::vector<TokenId> tokens;             // of every choice, in turn
  std::chrono::microseconds token_time{0};  // before each step
  std::chrono::milliseconds first_delay{0};
  bool end_by_stop = true;                 // kStop after the tokens; else they go round for ever
  Status submit_error;                     // not ok: submit() fails
  Status refusal;                          // not ok: the only event is a kFinish with it
  int32_t fail_after = -1;                 // kError after so many tokens
  int32_t cached_tokens = 0;
};

class ScriptedSink final : public RequestSink {
 public:
  explicit ScriptedSink(std::function<Script(const Request&)> script)
      : script_(std::move(script)), thread_([this] { run(); }) {}
  ~ScriptedSink() override {
    stop_ = true;
    thread_.join();
  }

  RequestId next_id() override { return {++last_id_}; }

  Status submit(std::shared_ptr<const Request> request,
                std::shared_ptr<TokenListener> listener) override {
    Script script = script_(*request);
    if (!script.submit_error.ok()) return script.submit_error;
    std::lock_guard lock(mutex_);
    ++submitted_;
    requests_.push_back(request);
    Live live{request, std::move(listener), std::move(script), {}, {}, false};
    live.next = Clock::now() + live.script.first_delay;
    live.positions.assign(static_cast<size_t>(request->sampling.n), 0);
    live_.emplace(request->id.value, std::move(live));
    return ok_status();
  }

  void cancel(RequestId request) override {
    std::lock_guard lock(mutex_);
    const auto found = live_.find(request.value);
    if (found == live_.end()) return;
    ++cancelled_;
    for (int32_t c = 0; c < found->second.request->sampling.n; ++c) {
      finish(found->second, c, FinishReason::kCancelled, {});
    }
    live_.erase(found);
  }

  void cancel_choice(RequestId request, int32_t choice) override {
    std::lock_guard lock(mutex_);
    const auto found = live_.find(request.value);
    if (found != live_.end()) finish(found->second, choice, FinishReason::kCancelled, {});
    ++cancelled_choices_;
  }

  int running() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(live_.size());
  }
  int submitted() const {
    std::lock_guard lock(mutex_);
    return submitted_;
  }
  int cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }
  int cancelled_choices() const {
    std::lock_guard lock(mutex_);
    return cancelled_choices_;
  }
  std::shared_ptr<const Request> last_request() const {
    std::lock_guard lock(mutex_);
    return requests_.empty() ? nullptr : requests_.back();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Live {
    std::shared_ptr<const Request> request;
    std::shared_ptr<TokenListener> listener;
    Script script;
    Clock::time_point next;
    std::vector<int32_t> positions;  // -1: finished
    bool accepted;
  };

  TokenEvent event_for(const Live& live, TokenEvent::Kind kind, int32_t choice) const {
    TokenEvent event;
    event.kind = kind;
    event.request = live.request->id;
    event.choice = choice;
    event.usage.prompt_tokens = static_cast<int32_t>(live.request->prompt.size());
    event.usage.cached_tokens = live.script.cached_tokens;
    return event;
  }

  void finish(Live& live, int32_t choice, FinishReason reason, Status error) {
    int32_t& position = live.positions[static_cast<size_t>(choice)];
    if (position < 0) return;
    TokenEvent event = event_for(live, TokenEvent::Kind::kFinish, choice);
    event.finish = reason;
    event.error = std::move(error);
    event.usage.generated_tokens = position;
    position = -1;
    live.listener->deliver(std::move(event));
  }

  void step_choice(Live& live, int32_t choice) {
    int32_t& position = live.positions[static_cast<size_t>(choice)];
    if (position < 0) return;
    const Script& script = live.script;
    const auto count = static_cast<int32_t>(script.tokens.size());
    if (position == script.fail_after) {
      return finish(live, choice, FinishReason::kError, unavailable("the worker failed"));
    }
    if (position >= live.request->sampling.max_tokens) {
      return finish(live, choice, FinishReason::kLength, {});
    }
    if (count == 0 || (script.end_by_stop && position >= count)) {
      return finish(live, choice, FinishReason::kStop, {});
    }
    TokenEvent event = event_for(live, TokenEvent::Kind::kToken, choice);
    event.position = position;
    event.token = script.tokens[static_cast<size_t>(position % count)];
    event.logprob = -0.5f;
    for (int32_t k = 0; k < live.request->sampling.top_logprobs; ++k) {
      event.top.push_back({(event.token + k) % 256, -0.5f - static_cast<float>(k)});
    }
    ++position;
    live.listener->deliver(std::move(event));
  }

  // True when the request is done.
  bool step(Live& live) {
    if (!live.accepted) {
      live.accepted = true;
      if (!live.script.refusal.ok()) {
        finish(live, 0, FinishReason::kError, live.script.refusal);
        return true;
      }
      live.listener->deliver(event_for(live, TokenEvent::Kind::kAccepted, 0));
    }
    bool done = true;
    for (int32_t c = 0; c < live.request->sampling.n; ++c) {
      step_choice(live, c);
      done &= live.positions[static_cast<size_t>(c)] < 0;
    }
    live.next = Clock::now() + live.script.token_time;
    return done;
  }

  void run() {
    while (!stop_) {
      bool worked = false;
      {
        std::lock_guard lock(mutex_);
        for (auto it = live_.begin(); it != live_.end();) {
          const bool due = it->second.next <= Clock::now();
          worked |= due;
          it = due && step(it->second) ? live_.erase(it) : std::next(it);
        }
      }
      if (!worked) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  const std::function<Script(const Request&)> script_;
  std::atomic<uint64_t> last_id_{0};
  mutable std::mutex mutex_;
  std::map<uint64_t, Live> live_;
  std::vector<std::shared_ptr<const Request>> requests_;
  int submitted_ = 0;
  int cancelled_ = 0;
  int cancelled_choices_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lineshaft::api
