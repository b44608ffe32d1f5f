// CpuWorker: the Worker door on a thread of its own.
//
// Takes plans in order through a bounded queue, runs them on a StepRunner and hands each result to
// the callback. Owns the thread; decides nothing.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "base/queue.h"
#include "core/doors/worker.h"
#include "core/step_plan.h"
#include "worker/step_runner.h"

namespace lineshaft::worker {

class CpuWorker final : public Worker {
 public:
  // Called on the worker's thread, once for each plan, in order. Must not block for long and must
  // not call the worker: it pushes the result into its owner's inbox.
  using OnResult = std::function<void(StepResult&& result)>;

  CpuWorker(std::unique_ptr<StepRunner> runner, OnResult on_result);
  // Runs the plans that were started, reports them, and ends the thread.
  ~CpuWorker() override;

  // From one thread at a time. CHECKs that at most kPlansMax plans are without an answer.
  void start(StepPlan plan) override;

 private:
  void loop();

  std::unique_ptr<StepRunner> runner_;
  OnResult on_result_;
  BoundedQueue<StepPlan> plans_;
  std::thread thread_;
};

}  // namespace lineshaft::worker
