#include "worker/cpu_worker.h"

#include <optional>
#include <utility>

#include "base/check.h"

namespace lineshaft::worker {

CpuWorker::CpuWorker(std::unique_ptr<StepRunner> runner, OnResult on_result)
    : runner_(std::move(runner)),
      on_result_(std::move(on_result)),
      plans_(kPlansMax),
      thread_([this] { loop(); }) {}

CpuWorker::~CpuWorker() {
  plans_.close();
  thread_.join();
}

void CpuWorker::start(StepPlan plan) {
  const StepId step = plan.step;
  LS_CHECK(plans_.try_push(std::move(plan)), "step {}: more than {} plans without an answer",
           step.value, kPlansMax);
}

void CpuWorker::loop() {
  while (std::optional<StepPlan> plan = plans_.pop()) {
    on_result_(runner_->run(std::move(*plan)));
  }
}

}  // namespace lineshaft::worker
