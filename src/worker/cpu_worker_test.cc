// At stake: results in order, none lost, also when the worker goes away.
#include "worker/cpu_worker.h"

#include <gtest/gtest.h>

#include <mutex>

#include "support/forward_harness.h"
#include "support/gguf_writer.h"
#include "support/plan_driver.h"

namespace lineshaft::worker {
namespace {

std::unique_ptr<StepRunner> tiny_runner() {
  static const auto weights = testing::load_weights(testing::tiny_file(
      testing::tiny_model(ModelFamily::kLlama, kernels::WeightType::kF32, 5)));
  StepRunnerOptions options;
  options.forward.block_tokens = 16;
  options.forward.step_tokens_max = 64;
  options.forward.logit_rows_max = 8;
  options.context_tokens = 200;
  options.kv_blocks = 32;
  options.thread_count = 2;
  return StepRunner::create(weights, std::make_shared<const Vocab>(), options).value();
}

std::shared_ptr<const Request> request() {
  auto out = std::make_shared<Request>();
  out->prompt = {5, 6, 7, 8, 9};
  out->sampling.max_tokens = 40;
  return out;
}

std::vector<TokenId> step_by_step(int steps) {
  auto runner = tiny_runner();
  testing::PlanDriver driver(16, 32);
  const SeqId id = driver.add(request());
  std::vector<TokenId> out;
  for (int i = 0; i < steps; ++i) {
    driver.work(id, 10);
    out.push_back(runner->run(driver.take()).results[0].token);
  }
  return out;
}

TEST(CpuWorker, PlannedAheadGivesTheTokensOfStepByStep) {
  constexpr int kSteps = 30;
  BoundedQueue<StepResult> inbox(4);
  testing::PlanDriver driver(16, 32);
  CpuWorker worker(tiny_runner(), [&](StepResult&& result) {
    EXPECT_TRUE(inbox.try_push(std::move(result)));
  });
  const SeqId id = driver.add(request());
  std::vector<TokenId> got;
  int started = 0;
  while (static_cast<int>(got.size()) < kSteps) {
    while (started < kSteps && started - static_cast<int>(got.size()) < Worker::kPlansMax) {
      driver.work(id, 10);
      worker.start(driver.take());
      ++started;
    }
    const auto result = inbox.pop();
    ASSERT_EQ(result->step.value, got.size() + 1);
    got.push_back(result->results[0].token);
  }
  EXPECT_EQ(got, step_by_step(kSteps));
}

TEST(CpuWorker, AnswersStartedPlansBeforeItGoes) {
  std::mutex mutex;
  std::vector<uint64_t> steps;
  {
    testing::PlanDriver driver(16, 32);
    CpuWorker worker(tiny_runner(), [&](StepResult&& result) {
      std::lock_guard lock(mutex);
      steps.push_back(result.step.value);
    });
    const SeqId id = driver.add(request());
    for (int i = 0; i < Worker::kPlansMax; ++i) {
      driver.work(id, 10);
      worker.start(driver.take());
    }
  }
  EXPECT_EQ(steps, (std::vector<uint64_t>{1, 2}));
}

}  // namespace
}  // namespace lineshaft::worker
