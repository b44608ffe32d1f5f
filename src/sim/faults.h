// Faults: what a simulated run must survive. Chances are in thousandths; which events they hit is
// a function of the run's seed.
#pragma once

#include <cstdint>

namespace lineshaft::sim {

struct WorkerFaults {
  int32_t noise_permille = 100;      // a step takes up to this much more or less
  int32_t slow_step_permille = 0;    // steps that take slow_step_factor times as long
  int32_t slow_step_factor = 20;
};

struct CallerFaults {
  int32_t cancel_permille = 0;         // requests that are cancelled at some time
  int32_t cancel_choice_permille = 0;  // requests that lose one choice at some time
  int32_t cancel_on_token_permille = 0;  // requests that lose one at a token, by a stop string
  int32_t deadline_permille = 0;       // requests with a deadline that may pass
  int32_t impossible_permille = 0;     // requests that fit no context or pool
};

}  // namespace lineshaft::sim
