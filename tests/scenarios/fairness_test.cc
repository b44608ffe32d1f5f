// What is at stake: that under load everybody's answer goes on. Each test is a load that froze or
// starved other engines (the numbers P… are those of our list of field reports).
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/scenario.h"
#include "sim/token_function.h"

namespace lineshaft::sim {
namespace {

constexpr double kStepMs = 50.0;

// A machine with 2 ms a step, 0.5 ms a row: a prompt of 4,096 tokens takes two seconds alone.
Scenario machine() {
  Scenario out;
  policy::SchedulerConfig& scheduler = out.engine.scheduler;
  scheduler.limits.block_tokens = 16;
  scheduler.limits.kv_blocks = 4096;
  scheduler.limits.context_tokens = 8192;
  scheduler.limits.sequences_max = 16;
  scheduler.limits.step_tokens_max = 512;
  scheduler.limits.queue_max = 1000;
  scheduler.step_ms = kStepMs;
  scheduler.prompt_step_ms = 2 * kStepMs;
  scheduler.age_bound = Duration::seconds(2);
  out.true_cost = {2.0, 0.5, 0.2, 0.0};
  scheduler.cost = out.true_cost;
  return out;
}

// The seed is chosen so that the model would answer with more tokens than asked for.
uint64_t talkative_seed(uint64_t from) {
  while (answer_length(from, 0, kAnswerTokensMax) < kAnswerTokensMax) ++from;
  return from;
}

Caller caller(Instant arrival, int32_t prompt, int32_t max_tokens,
              Priority priority = Priority::kNormal) {
  static constexpr uint64_t kSeeds = 1000;
  Caller out;
  out.arrival = arrival;
  Request request;
  // Each prompt is another text: its tokens depend on when it arrives and how long it is.
  const RngKey text(static_cast<uint64_t>(arrival.ns) + static_cast<uint64_t>(prompt));
  for (int32_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<TokenId>(text.below(static_cast<uint64_t>(i), kSeeds)));
  }
  request.sampling.seed = talkative_seed(text.value() % kSeeds);
  request.sampling.max_tokens = max_tokens;
  request.priority = priority;
  out.request = std::make_shared<const Request>(std::move(request));
  return out;
}

// Ids in order of arrival, as the simulation wants them.
std::vector<Caller> in_order(std::vector<Caller> callers) {
  std::stable_sort(callers.begin(), callers.end(),
                   [](const Caller& a, const Caller& b) { return a.arrival < b.arrival; });
  for (size_t i = 0; i < callers.size(); ++i) {
    Request request = *callers[i].request;
    request.id = RequestId{i + 1};
    callers[i].request = std::make_shared<const Request>(std::move(request));
  }
  return callers;
}

Instant ms(int64_t n) { return Instant{} + Duration::milliseconds(n); }

void expect_right(const Report& report) {
  for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
}

// P065, P066: streams that decode keep their pace while prompts pour in and while one long prompt
// goes through.
TEST(Fairness, StreamsKeepTheirPaceUnderAFlowOfPrompts) {
  Scenario scenario = machine();
  std::vector<Caller> callers;
  for (int i = 0; i < 4; ++i) callers.push_back(caller(ms(i), 32, 60));
  callers.push_back(caller(ms(30), 4096, 4));
  for (int i = 0; i < 40; ++i) callers.push_back(caller(ms(50 + 20 * i), 500 + 7 * i, 4));
  const Report report = run(scenario, in_order(callers));
  expect_right(report);
  EXPECT_LE(report.gap_max.in_milliseconds(), 3 * kStepMs);
}

// P067: a prompt starts within a bound while decode alone fills every step.
TEST(Fairness, APromptGetsThroughASaturatedDecode) {
  Scenario scenario = machine();
  scenario.true_cost.row_ms = 5.0;  // twelve streams take 62 ms a step
  scenario.engine.scheduler.cost = scenario.true_cost;
  std::vector<Caller> callers;
  for (int i = 0; i < 12; ++i) callers.push_back(caller(ms(i), 16, 60));
  callers.push_back(caller(ms(2500), 64, 2));
  const Report report = run(scenario, in_order(callers));
  expect_right(report);
  // Four chunks of 16 rows (80 ms), one every fourth step, behind two steps in flight.
  EXPECT_LE(report.first_token.at(13).in_milliseconds(), 4 * (4 * 65.0 + 80.0) + 2 * 145.0);
}

// Low priority waits, but not for ever, while high priority keeps the machine full.
TEST(Fairness, LowPriorityStartsInSpiteOfAnEndlessFlowOfHigh) {
  Scenario scenario = machine();
  scenario.engine.scheduler.limits.sequences_max = 4;
  std::vector<Caller> callers;
  callers.push_back(caller(ms(990), 300, 8, Priority::kLow));  // others fill all slots by then
  for (int i = 0; i < 300; ++i) callers.push_back(caller(ms(40 * i), 200, 8, Priority::kHigh));
  const std::vector<Caller> ordered = in_order(callers);
  const Report report = run(scenario, ordered);
  expect_right(report);
  // The flow lasts 12 s and is more than the machine can do; the age bound is 2 s.
  ASSERT_GT(report.end.ns * 1e-9, 20.0);
  const size_t low = 25;
  ASSERT_EQ(ordered[low].request->priority, Priority::kLow);
  EXPECT_LE(report.first_token.at(low + 1).in_seconds(), 5.0);
}

// P051, P125: answers that outgrow the pool together are all completed, one after the other.
TEST(Fairness, FourAnswersThatOutgrowThePoolAllComplete) {
  Scenario scenario = machine();
  scenario.engine.scheduler.limits.kv_blocks = 8;  // 128 positions
  std::vector<Caller> callers;
  for (int i = 0; i < 4; ++i) callers.push_back(caller(ms(i), 20, 60));
  const Report report = run(scenario, in_order(callers));
  expect_right(report);
  EXPECT_EQ(report.stats.generated_tokens, 4u * 60u);
  EXPECT_GT(report.stats.scheduler.preemptions, 0u);
}

// P126: the context is one request's; the pool is shared.
TEST(Fairness, ALongRequestMayUseTheWholeContextWhileOthersAreIdle) {
  Scenario scenario = machine();
  scenario.engine.scheduler.limits.kv_blocks = 8192 / 16;
  const Report report = run(scenario, in_order({caller(ms(0), 8191, 1)}));
  expect_right(report);
  EXPECT_EQ(report.stats.generated_tokens, 1u);
}

// P037: whenever clients leave, everything is free again at once.
TEST(Fairness, AfterACancelStormNothingIsHeld) {
  Scenario scenario = machine();
  std::vector<Caller> callers;
  for (int i = 0; i < 100; ++i) {
    callers.push_back(caller(ms(5 * i), 50 + 13 * i, 60));
    callers.back().cancel = ms(5 * i + (37 * i) % 900);
  }
  const Report report = run(scenario, in_order(callers));
  expect_right(report);  // nothing held at the end, among others
  EXPECT_GT(report.cancelled, 50u);
  EXPECT_LE((report.end - ms(5 * 99 + 900)).in_milliseconds(), 4 * kStepMs);
}

}  // namespace
}  // namespace lineshaft::sim
