// What is at stake: the promises of core/token_event.h to whoever waits for an answer. The worker
// is played by hand here; random runs are in tests/scenarios.
#include "node/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace lineshaft::node {
namespace {

using Kind = TokenEvent::Kind;
using testing::HasSubstr;

// Answers plans when told to; the n-th token of any sequence is 100 + n, and `stop_at` ends it.
class HandWorker final : public Worker {
 public:
  void start(StepPlan plan) override { plans.push_back(std::move(plan)); }

  StepResult answer() {
    StepResult result;
    const StepPlan& plan = plans.front();
    result.step = plan.step;
    result.compute = Duration::milliseconds(1);
    for (const SeqStart& start : plan.starts) prompt_[start.seq] = start.request->prompt.size();
    for (const SeqWork& work : plan.work) {
      SeqResult r;
      r.seq = work.seq;
      const size_t length = static_cast<size_t>(work.first + work.count);
      const auto index = static_cast<int32_t>(length - prompt_[work.seq]);
      r.skipped = stopped_.contains(work.seq);
      r.sampled = work.sample && !r.skipped;
      r.token = 100 + index;
      if (r.sampled && index == fail_at) {
        r.sampled = false;
        r.ended = true;
        r.finish = FinishReason::kError;
        stopped_.insert(work.seq);
      }
      if (r.sampled && index == stop_at) {
        r.ended = true;
        stopped_.insert(work.seq);
      }
      result.results.push_back(r);
    }
    plans.pop_front();
    return result;
  }

  std::deque<StepPlan> plans;
  int32_t stop_at = -1;
  int32_t fail_at = -1;

 private:
  std::map<SeqId, size_t> prompt_;
  std::set<SeqId> stopped_;
};

struct Events final : EventOut {
  void deliver(TokenEvent&& event) override { all.push_back(std::move(event)); }
  std::vector<TokenEvent> of(uint64_t request) const {
    std::vector<TokenEvent> out;
    for (const TokenEvent& event : all) {
      if (event.request.value == request) out.push_back(event);
    }
    return out;
  }
  std::vector<TokenEvent> all;
};

EngineConfig config() {
  EngineConfig out;
  Limits& limits = out.scheduler.limits;
  limits.block_tokens = 4;
  limits.kv_blocks = 64;
  limits.context_tokens = 64;
  limits.sequences_max = 4;
  limits.queue_max = 4;
  limits.step_tokens_max = 64;
  out.scheduler.cost = {1.0, 0.1, 0.0, 0.0};
  out.numerics_profile = "test";
  out.kv_type = "f32";
  return out;
}

class EngineTest : public testing::Test {
 protected:
  void make(const EngineConfig& c) { engine = std::make_unique<Engine>(c, worker, events); }
  void SetUp() override { make(config()); }

  Request request(uint64_t id, int32_t prompt = 10, int32_t max_tokens = 3) {
    Request out;
    out.id = RequestId{id};
    for (int32_t i = 0; i < prompt; ++i) out.prompt.push_back(i);
    out.sampling.max_tokens = max_tokens;
    return out;
  }
  void submit(Request r) {
    engine->on_submit(std::make_shared<const Request>(std::move(r)), now);
    engine->maybe_plan(now);
  }
  void step() {
    now = now + Duration::milliseconds(1);
    engine->on_step_done(worker.answer(), now);
    engine->maybe_plan(now);
  }
  void finish() {
    for (int i = 0; i < 1000 && !worker.plans.empty(); ++i) step();
    EXPECT_TRUE(engine->idle());
    EXPECT_EQ(engine->stats().blocks_held, 0);
  }

  HandWorker worker;
  Events events;
  std::unique_ptr<Engine> engine;
  Instant now;
};

TEST_F(EngineTest, AcceptsAtOnceThenTokensInOrderThenOneEnd) {
  submit(request(1));
  ASSERT_EQ(events.all.size(), 1u);
  EXPECT_EQ(events.all[0].kind, Kind::kAccepted);
  EXPECT_EQ(events.all[0].usage.prompt_tokens, 10);
  finish();
  const auto all = events.of(1);
  ASSERT_EQ(all.size(), 5u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[static_cast<size_t>(i) + 1].position, i);
    EXPECT_EQ(all[static_cast<size_t>(i) + 1].token, 100 + i);
  }
  EXPECT_EQ(all[4].kind, Kind::kFinish);
  EXPECT_EQ(all[4].finish, FinishReason::kLength);
  EXPECT_EQ(all[4].usage.generated_tokens, 3);
}

TEST_F(EngineTest, AStopTokenIsNamedAndIsNoPartOfTheAnswer) {
  worker.stop_at = 2;
  submit(request(1, 10, 20));
  finish();
  const auto all = events.of(1);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].finish, FinishReason::kStop);
  EXPECT_EQ(all[3].stop_token, 102);
  EXPECT_EQ(all[3].usage.generated_tokens, 2);
}

TEST_F(EngineTest, AFailureOfTheWorkerEndsThatAnswerOnly) {
  worker.fail_at = 2;
  submit(request(1, 10, 20));
  submit(request(2, 9, 2));  // ends before its third token
  finish();
  EXPECT_EQ(events.of(1).back().finish, FinishReason::kError);
  EXPECT_EQ(events.of(1).back().error.code(), StatusCode::kInternal);
  EXPECT_EQ(events.of(1).back().usage.generated_tokens, 2);
  EXPECT_EQ(events.of(2).back().finish, FinishReason::kLength);
}

TEST_F(EngineTest, EachChoiceHasItsOwnEnd) {
  Request r = request(1, 10, 2);
  r.sampling.n = 3;
  submit(std::move(r));
  finish();
  std::map<int32_t, int> ends;
  for (const TokenEvent& event : events.all) {
    if (event.kind == Kind::kFinish) ++ends[event.choice];
  }
  EXPECT_EQ(ends, (std::map<int32_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

TEST_F(EngineTest, CancelEndsEverythingBeforeItReturnsAndTwiceIsOnce) {
  submit(request(1, 10, 20));
  step();
  step();
  const size_t before = events.all.size();
  engine->on_cancel(RequestId{1}, now);
  ASSERT_EQ(events.all.size(), before + 1);
  EXPECT_EQ(events.all.back().finish, FinishReason::kCancelled);
  engine->on_cancel(RequestId{1}, now);
  engine->on_cancel(RequestId{77}, now);
  EXPECT_EQ(events.all.size(), before + 1);
  finish();
  EXPECT_EQ(events.all.size(), before + 1) << "results that come late go nowhere";
}

TEST_F(EngineTest, CancelOfAWaitingRequestKeepsItFromThePlans) {
  EngineConfig c = config();
  c.scheduler.limits.sequences_max = 1;
  make(c);
  submit(request(1, 10, 8));
  submit(request(2, 9, 8));
  EXPECT_EQ(engine->stats().requests_waiting, 1);
  engine->on_cancel(RequestId{2}, now);
  EXPECT_EQ(engine->stats().requests_waiting, 0);
  finish();
  EXPECT_EQ(engine->stats().prompt_tokens, 10u);
}

TEST_F(EngineTest, CancelOfOneChoiceLeavesTheOthers) {
  Request r = request(1, 10, 6);
  r.sampling.n = 2;
  submit(std::move(r));
  step();
  step();
  engine->on_cancel_choice(RequestId{1}, 0, now);
  engine->on_cancel_choice(RequestId{1}, 0, now);
  engine->on_cancel_choice(RequestId{1}, 9, now);
  finish();
  std::map<int32_t, FinishReason> ends;
  for (const TokenEvent& event : events.all) {
    if (event.kind != Kind::kFinish) continue;
    EXPECT_TRUE(ends.emplace(event.choice, event.finish).second);
  }
  EXPECT_EQ(ends.at(0), FinishReason::kCancelled);
  EXPECT_EQ(ends.at(1), FinishReason::kLength);
}

TEST_F(EngineTest, ARefusalIsOneEndAndNothingElse) {
  submit(request(1, 60, 5));
  ASSERT_EQ(events.all.size(), 1u);
  EXPECT_EQ(events.all[0].kind, Kind::kFinish);
  EXPECT_EQ(events.all[0].error.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(message_of(events.all[0].error)), HasSubstr("context of 64"));
  EXPECT_TRUE(engine->idle());
}

TEST_F(EngineTest, AFullQueueRefusesWithATimeToComeBack) {
  EngineConfig c = config();
  c.scheduler.limits.sequences_max = 1;
  make(c);
  for (uint64_t id = 1; id <= 6; ++id) submit(request(id));
  const auto refused = events.of(6);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(retry_after_of(refused[0].error).has_value());
  finish();
}

TEST_F(EngineTest, ADeadlineIsTheNextWakeUpAndEndsTheRequest) {
  Request r = request(1, 10, 20);
  r.deadline = Instant{} + Duration::milliseconds(3);
  EXPECT_EQ(engine->next_wakeup(), Instant::never());
  submit(std::move(r));
  EXPECT_EQ(engine->next_wakeup(), Instant{} + Duration::milliseconds(3));
  step();
  engine->on_timer(Instant{} + Duration::milliseconds(3));
  EXPECT_EQ(events.all.back().kind, Kind::kFinish);
  EXPECT_EQ(events.all.back().finish, FinishReason::kError);
  EXPECT_EQ(events.all.back().error.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine->next_wakeup(), Instant::never());
  finish();
}

TEST_F(EngineTest, ARequestThatArrivesLateIsRefused) {
  now = Instant{} + Duration::milliseconds(5);
  Request r = request(1);
  r.deadline = Instant{} + Duration::milliseconds(5);
  submit(std::move(r));
  ASSERT_EQ(events.all.size(), 1u);
  EXPECT_EQ(events.all[0].error.code(), StatusCode::kDeadlineExceeded);
}

TEST_F(EngineTest, TheNextTurnOfADialogueFindsTheAnswerInThePool) {
  submit(request(1, 10, 9));
  finish();
  Request next = request(2, 10, 2);
  for (int32_t i = 0; i < 9; ++i) next.prompt.push_back(100 + i);
  next.prompt.push_back(7);
  submit(std::move(next));
  // 18 of the 19 tokens have been computed: four blocks of four.
  EXPECT_EQ(events.all.back().usage.cached_tokens, 16);
  finish();
  EXPECT_EQ(events.of(2).back().usage.cached_tokens, 16);
  EXPECT_EQ(engine->stats().cached_tokens, 16u);
}

TEST_F(EngineTest, AnotherSaltSharesNothing) {
  const auto salted = [&](uint64_t id, uint8_t salt) {
    Request r = request(id, 20, 2);
    r.cache_salt.bytes[0] = salt;
    return r;
  };
  submit(salted(1, 1));
  finish();
  submit(salted(2, 2));
  finish();
  submit(salted(3, 1));
  finish();
  EXPECT_EQ(events.of(2).back().usage.cached_tokens, 0);
  EXPECT_EQ(events.of(3).back().usage.cached_tokens, 16);
}

TEST_F(EngineTest, DrainRefusesTheNewAndFinishesTheOld) {
  submit(request(1, 10, 4));
  engine->drain();
  submit(request(2));
  EXPECT_EQ(events.of(2).at(0).error.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(engine->idle());
  finish();
  EXPECT_EQ(events.of(1).back().finish, FinishReason::kLength);
}

TEST_F(EngineTest, PlansAheadOnlyAsFarAsToldTo) {
  EngineConfig c = config();
  c.plans_ahead_max = 1;
  make(c);
  submit(request(1));
  EXPECT_EQ(worker.plans.size(), 1u);
  finish();
  make(config());
  submit(request(2));
  EXPECT_EQ(worker.plans.size(), 2u);
  finish();
}

TEST_F(EngineTest, TheWorkerLearnsOfEachSequenceOnceAndOfItsEnd) {
  submit(request(1, 10, 2));
  ASSERT_EQ(worker.plans.front().starts.size(), 1u);
  EXPECT_EQ(worker.plans.front().starts[0].request->id, RequestId{1});
  const SeqId seq = worker.plans.front().starts[0].seq;
  finish();
  submit(request(2, 10, 2));
  EXPECT_EQ(worker.plans.front().ends, std::vector<SeqId>{seq});
  finish();
}

TEST_F(EngineTest, StatsAddUp) {
  submit(request(1, 10, 3));
  submit(request(2, 12, 2));
  submit(request(3, 60, 60));
  finish();
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.requests_accepted, 2u);
  EXPECT_EQ(stats.requests_refused, 1u);
  EXPECT_EQ(stats.requests_finished, 2u);
  EXPECT_EQ(stats.prompt_tokens, 22u);
  EXPECT_EQ(stats.generated_tokens, 5u);
  EXPECT_EQ(stats.queue_time.count, 2u);
  EXPECT_EQ(stats.time_to_first_token.count, 2u);
  EXPECT_EQ(stats.inter_token_latency.count, 3u);
  EXPECT_EQ(stats.request_time.count, 2u);
  EXPECT_EQ(stats.requests_running + stats.requests_waiting, 0);
  EXPECT_EQ(stats.blocks_free + stats.blocks_cached, 64);
}

TEST(TimeHistogram, CountsInTheFirstBucketThatHoldsIt) {
  TimeHistogram histogram;
  histogram.add(Duration::milliseconds(1));
  histogram.add(Duration::microseconds(1001));
  histogram.add(Duration::seconds(10'000));
  EXPECT_EQ(histogram.counts[0], 1u);
  EXPECT_EQ(histogram.counts[1], 1u);
  EXPECT_EQ(histogram.counts.back(), 1u);
  EXPECT_EQ(histogram.count, 3u);
}

}  // namespace
}  // namespace lineshaft::node
