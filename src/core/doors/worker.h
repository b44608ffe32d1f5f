// Worker door: carries out plans. Takes them in order, answers each with one StepResult, never
// calls back otherwise, never reorders, keeps no policy.
#pragma once

#include "core/step_plan.h"

namespace lineshaft {

class Worker {
 public:
  virtual ~Worker() = default;

  // Starts a step; its StepResult arrives later as one event, by the way that the worker was
  // given when it was made. At most kPlansMax plans may be without an answer.
  virtual void start(StepPlan plan) = 0;

  static constexpr int kPlansMax = 2;  // one runs, one is planned ahead
};

}  // namespace lineshaft
