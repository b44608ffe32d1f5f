// Workload: what callers ask of a simulated engine and when. A list of values drawn from a seed;
// contains the callers' faults, knows nothing of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "core/limits.h"
#include "core/request.h"
#include "sim/faults.h"

namespace lineshaft::sim {

struct WorkloadConfig {
  int32_t requests = 10;
  int32_t gap_ms_max = 50;          // between arrivals
  int32_t prompt_tokens_max = 60;
  int32_t max_tokens_max = 40;
  int32_t prefix_groups = 2;        // prompts begin with one of these shared texts; 0: none do
  int32_t prefix_tokens_max = 40;
  int32_t follow_up_permille = 200;  // requests that continue an earlier one and its answer
  int32_t choices_max = 3;
  bool priorities = true;           // else all normal
  CallerFaults faults;
};

struct Caller {
  Instant arrival;
  std::shared_ptr<const Request> request;
  Instant cancel = Instant::never();         // of the request
  Instant cancel_choice = Instant::never();  // of choice `lost_choice`
  int32_t lost_choice = 0;
  int32_t cancel_on_token = -1;  // choice `lost_choice` is cancelled when it gets this token
  bool impossible = false;       // made to exceed context or pool
};

// `limits` are those of the engine: possible requests fit them alone.
std::vector<Caller> draw_workload(const WorkloadConfig& config, const Limits& limits, RngKey key);

}  // namespace lineshaft::sim
