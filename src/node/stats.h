// EngineStats: what an engine has done, as plain numbers; whoever shows them gives them names.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "policy/scheduler.h"

namespace lineshaft::node {

// Upper bounds in seconds: 1-2-5 steps over what a token on a small CPU and a long queue take.
constexpr std::array<double, 17> kTimeBounds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                0.1,   0.2,   0.5,   1.0,  2.0,  5.0,
                                                10.0,  20.0,  60.0,  120.0, 600.0};

// counts[i]: samples in (kTimeBounds[i - 1], kTimeBounds[i]]; the last one: above all bounds.
struct TimeHistogram {
  std::array<uint64_t, kTimeBounds.size() + 1> counts{};
  uint64_t count = 0;
  double sum_seconds = 0.0;

  void add(Duration time) {
    const double seconds = time.in_seconds();
    size_t i = 0;
    while (i < kTimeBounds.size() && seconds > kTimeBounds[i]) ++i;
    ++counts[i];
    ++count;
    sum_seconds += seconds;
  }
};

struct EngineStats {
  // Now.
  int32_t requests_running = 0;   // unfinished, with a choice that has started
  int32_t requests_waiting = 0;   // admitted, not started
  int32_t sequences_running = 0;
  int32_t sequences_waiting = 0;
  int32_t blocks_free = 0;
  int32_t blocks_cached = 0;
  int32_t blocks_held = 0;
  double cost_correction_decode = 1.0;  // measured over predicted step time
  double cost_correction_prompt = 1.0;

  // Since the start.
  uint64_t requests_accepted = 0;
  uint64_t requests_refused = 0;
  uint64_t requests_finished = 0;
  uint64_t requests_cancelled = 0;  // of these, by the caller before the end
  uint64_t prompt_tokens = 0;       // of requests that started
  uint64_t cached_tokens = 0;       // of these, reused from memory
  uint64_t generated_tokens = 0;
  policy::Scheduler::Counters scheduler;
  TimeHistogram queue_time;           // arrival to the first plan of a request
  TimeHistogram time_to_first_token;  // arrival to the first token of a request
  TimeHistogram inter_token_latency;  // between tokens of one choice
  TimeHistogram request_time;         // arrival to the last finish
  TimeHistogram decode_step_time;     // compute of steps without prompt rows
  TimeHistogram mixed_step_time;      // compute of steps with prompt rows
};

}  // namespace lineshaft::node
