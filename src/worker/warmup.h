// Warm-up: a few steps before serving, which touch memory and measure what steps cost.
//
// Uses the runner's real arena (no sequence may be in it yet: the contents of its first blocks are
// overwritten) and leaves no sequence behind. Decides nothing: policy does the arithmetic.
#pragma once

#include "base/time.h"
#include "core/step_plan.h"
#include "worker/step_runner.h"

namespace lineshaft::worker {

// Runs steps of one and of many rows, of one and of many answers, at short and at long context, and
// fits StepCost to the fastest of each kind: base_ms holds what the first answer of a step costs
// (reading the output projection), sample_ms what a further one does. Repeats all five kinds of
// steps while `budget` lasts, at least once each, so a large model takes longer: about three steps
// of one row, three of 32 and one of 16.
StepCost warm_up(StepRunner& runner, Duration budget = Duration::milliseconds(200));

}  // namespace lineshaft::worker
