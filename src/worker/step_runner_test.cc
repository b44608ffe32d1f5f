// At stake: the tokens that users get. A tiny random model makes them, plans come by hand.
#include "worker/step_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/rng.h"
#include "support/forward_harness.h"
#include "support/gguf_writer.h"
#include "support/plan_driver.h"
#include "worker/warmup.h"

namespace lineshaft::worker {
namespace {

using testing::PlanDriver;

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kBlocks = 64;

std::shared_ptr<const model::Weights> tiny_weights() {
  static const auto weights = testing::load_weights(testing::tiny_file(
      testing::tiny_model(ModelFamily::kLlama, kernels::WeightType::kQ4_0, 3)));
  return weights;
}

struct Fixture {
  explicit Fixture(Vocab vocab_in = {}, int threads = 2, int32_t context = 200)
      : driver(kBlockTokens, kBlocks) {
    StepRunnerOptions options;
    options.forward.isa = kernels::best_isa();
    options.forward.block_tokens = kBlockTokens;
    options.forward.step_tokens_max = 64;
    options.forward.logit_rows_max = 16;
    options.context_tokens = context;
    options.kv_blocks = kBlocks;
    options.thread_count = threads;
    options.observe_logits = [this](SeqId seq, int32_t, std::span<const float> logits) {
      seen[seq.value].assign(logits.begin(), logits.end());
    };
    runner = StepRunner::create(tiny_weights(), std::make_shared<const Vocab>(std::move(vocab_in)),
                                std::move(options))
                 .value();
  }

  StepResult step() { return runner->run(driver.take()); }

  // The answer of one sequence alone, one plan at a time, until it ends; then forgets it.
  std::vector<TokenId> answer(const std::shared_ptr<const Request>& request, int32_t choice = 0) {
    const SeqId id = driver.add(request, choice);
    std::vector<TokenId> out;
    for (bool ended = false; !ended;) {
      driver.work(id, 64);
      const SeqResult result = std::move(step().results.at(0));
      EXPECT_FALSE(result.skipped);
      if (result.sampled) out.push_back(result.token);
      ended = result.ended;
      finish = result.finish;
    }
    driver.end(id);
    step();
    EXPECT_EQ(runner->sequence_count(), 0);
    return out;
  }

  PlanDriver driver;
  std::unique_ptr<StepRunner> runner;
  std::map<uint64_t, std::vector<float>> seen;  // the last logits of each sequence
  FinishReason finish = FinishReason::kError;
};

std::shared_ptr<Request> request_of(uint64_t seed, int32_t prompt_tokens, int32_t max_tokens,
                                    float temperature) {
  auto request = std::make_shared<Request>();
  const RngKey key(seed);
  for (int32_t i = 0; i < prompt_tokens; ++i) {
    request->prompt.push_back(static_cast<TokenId>(key.below(i, testing::kTinyVocab)));
  }
  request->sampling.max_tokens = max_tokens;
  request->sampling.temperature = temperature;
  request->sampling.seed = seed;
  return request;
}

TEST(StepRunner, GreedyAnswerEqualsAForwardPassByHand) {
  Fixture f;
  const auto request = request_of(1, 40, 12, 0.0f);
  const auto got = f.answer(request);
  EXPECT_EQ(f.finish, FinishReason::kLength);
  testing::ForwardHarness harness(tiny_weights(), f.runner->options().forward, 1);
  const int seq = harness.add_sequence(64);
  std::vector<TokenId> input = request->prompt;
  std::vector<TokenId> expected;
  for (int i = 0; i < 12; ++i) {
    harness.extend(seq, input, false);
    expected.push_back(static_cast<TokenId>(
        harness.kernels().argmax(harness.logits(0), harness.spec().vocab)));
    input = {expected.back()};
  }
  EXPECT_EQ(got, expected);
}

TEST(StepRunner, AnswersAreTheSameInAnyCompany) {
  constexpr int kRequests = 12;
  std::vector<std::shared_ptr<Request>> requests;
  std::vector<std::vector<TokenId>> alone;
  Fixture single({}, 1);
  for (int i = 0; i < kRequests; ++i) {
    requests.push_back(request_of(100 + i, 3 + 7 * (i % 5), 10, i % 3 == 0 ? 0.0f : 1.2f));
    if (i % 4 == 1) requests.back()->sampling.top_p = 0.8f;
    if (i % 4 == 2) requests.back()->sampling.top_k = 20;
    if (i % 4 == 3) requests.back()->sampling.frequency_penalty = 1.0f;
    alone.push_back(single.answer(requests.back()));
  }
  // Together: staggered starts, prompts in chunks of 5, more rows than one rank samples alone.
  Fixture f({}, 3);
  std::vector<SeqId> ids;
  std::vector<std::vector<TokenId>> got(kRequests);
  std::vector<bool> ended(kRequests);
  for (int round = 0; round < 100; ++round) {
    if (round < kRequests) ids.push_back(f.driver.add(requests[round]));
    std::vector<int> in_plan;
    for (int i = 0; i < static_cast<int>(ids.size()); ++i) {
      if (ended[i]) continue;
      f.driver.work(ids[i], 5);
      in_plan.push_back(i);
    }
    if (in_plan.empty()) break;
    const StepResult result = f.step();
    for (size_t w = 0; w < in_plan.size(); ++w) {
      const SeqResult& r = result.results[w];
      if (r.sampled) got[in_plan[w]].push_back(r.token);
      ended[in_plan[w]] = r.ended;
    }
  }
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(got[i], alone[i]) << i;
}

TEST(StepRunner, ChoicesDifferAndEachIsReproducibleAlone) {
  Fixture f;
  const auto request = request_of(7, 10, 16, 1.0f);
  const auto first = f.answer(request, 0);
  const auto second = f.answer(request, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(f.answer(request, 1), second);
  auto other_seed = std::make_shared<Request>(*request);
  other_seed->sampling.seed = 8;
  EXPECT_NE(f.answer(other_seed, 0), first);
}

TEST(StepRunner, ARetryGoesOnWithTheSameTokens) {
  // The first half of an answer moves into the prompt, as after a handoff.
  Fixture f;
  auto request = request_of(9, 10, 12, 1.0f);
  request->sampling.presence_penalty = 0.7f;
  const auto whole = f.answer(request);
  auto retry = std::make_shared<Request>(*request);
  retry->original_prompt_tokens = 10;
  retry->prompt.insert(retry->prompt.end(), whole.begin(), whole.begin() + 6);
  EXPECT_EQ(f.answer(retry), std::vector<TokenId>(whole.begin() + 6, whole.end()));
}

TEST(StepRunner, WorkPlannedBeyondTheEndIsSkipped) {
  Fixture f;
  const auto request = request_of(11, 20, 12, 0.0f);
  const auto whole = f.answer(request);
  auto stopping = std::make_shared<Request>(*request);
  stopping->sampling.stop_tokens = {whole[3]};
  const auto first_use = std::find(whole.begin(), whole.end(), whole[3]) - whole.begin();

  const SeqId id = f.driver.add(stopping);
  const SeqId other = f.driver.add(request);
  std::vector<StepPlan> plans;
  for (int i = 0; i < 6; ++i) {  // all planned before the first runs
    f.driver.work(id, 20);
    f.driver.work(other, 20);
    plans.push_back(f.driver.take());
  }
  for (int i = 0; i < 6; ++i) {
    const StepResult result = f.runner->run(plans[i]);
    const SeqResult& r = result.results[0];
    ASSERT_EQ(r.skipped, i > first_use);
    EXPECT_EQ(r.sampled, i <= first_use);
    EXPECT_EQ(r.ended, i == first_use);
    if (r.ended) {
      EXPECT_EQ(r.finish, FinishReason::kStop);
      EXPECT_EQ(r.token, whole[3]);
    }
    EXPECT_EQ(result.results[1].token, whole[i]);  // the neighbour goes on
  }
  EXPECT_EQ(f.runner->sequence_count(), 2);  // contents live until the plan ends them
  f.driver.end(id);
  f.driver.end(other);
  f.step();
  EXPECT_EQ(f.runner->sequence_count(), 0);
}

TEST(StepRunner, EndOfGenerationStopsUnlessIgnored) {
  auto request = request_of(13, 20, 8, 0.0f);
  const auto whole = Fixture().answer(request);
  Vocab vocab;
  vocab.end_of_generation = {whole[0]};
  Fixture f(vocab);
  EXPECT_EQ(f.answer(request), std::vector<TokenId>{whole[0]});
  EXPECT_EQ(f.finish, FinishReason::kStop);
  request->sampling.ignore_eos = true;
  EXPECT_EQ(f.answer(request), whole);
  EXPECT_EQ(f.finish, FinishReason::kLength);
}

TEST(StepRunner, ContextLimitEndsTheAnswer) {
  Fixture f({}, 1, 24);
  EXPECT_EQ(f.answer(request_of(15, 20, 100, 0.0f)).size(), 4u);
  EXPECT_EQ(f.finish, FinishReason::kLength);
}

TEST(StepRunner, LogprobsAreOfTheRawLogits) {
  Fixture f;
  auto request = request_of(17, 10, 1, 0.7f);
  request->sampling.top_logprobs = 3;
  request->sampling.logit_bias = {{42, 50.0f}};
  const SeqId id = f.driver.add(request);
  f.driver.work(id, 64);
  const SeqResult result = std::move(f.step().results[0]);
  const auto& row = f.seen.at(id.value);
  double sum = 0.0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  EXPECT_EQ(result.token, 42);
  EXPECT_NEAR(result.logprob, row[42] - std::log(sum), 1e-5);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].token, std::max_element(row.begin(), row.end()) - row.begin());
  for (const auto& [token, logprob] : result.top) {
    EXPECT_NEAR(logprob, row[token] - std::log(sum), 1e-5);
  }
}

TEST(StepRunner, RowWithoutAFiniteBestEndsItsSequenceOnly) {
  Fixture f;
  auto broken = request_of(19, 10, 5, 1.0f);
  broken->sampling.logit_bias = {{7, std::numeric_limits<float>::infinity()}};
  const SeqId bad = f.driver.add(broken);
  const SeqId good = f.driver.add(request_of(19, 10, 5, 1.0f));
  f.driver.work(bad, 64);
  f.driver.work(good, 64);
  const StepResult result = f.step();
  EXPECT_TRUE(result.results[0].ended);
  EXPECT_FALSE(result.results[0].sampled);
  EXPECT_EQ(result.results[0].finish, FinishReason::kError);
  EXPECT_TRUE(result.results[1].sampled);
  EXPECT_FALSE(result.results[1].ended);
}

TEST(StepRunner, RefusesAnEmptyPool) {
  const auto runner =
      StepRunner::create(tiny_weights(), std::make_shared<const Vocab>(), StepRunnerOptions{});
  EXPECT_EQ(runner.status().code(), StatusCode::kInvalidArgument);
}

TEST(StepRunnerDeathTest, PlansThatDoNotFitTheContentsAreOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Fixture f({}, 1);
  const SeqId id = f.driver.add(request_of(21, 10, 5, 1.0f));
  f.driver.work(id, 4);
  StepPlan plan = f.driver.take();
  plan.work[0].sample = true;
  EXPECT_DEATH(f.runner->run(plan), "sample is true");
  plan.work[0] = {id, 8, 3, false, 0, 1};
  EXPECT_DEATH(f.runner->run(plan), "which has 10 tokens");
  plan.starts.clear();
  EXPECT_DEATH(f.runner->run(plan), "unknown");
}

TEST(WarmUp, MeasuresAndLeavesNothingBehind) {
  Fixture f;
  const auto before = f.answer(request_of(23, 30, 8, 1.0f));
  const SystemClock clock;
  const Instant begin = clock.now();
  const StepCost cost = warm_up(*f.runner, Duration::milliseconds(40));
  EXPECT_LT((clock.now() - begin).in_milliseconds(), 2000);
  EXPECT_GT(cost.base_ms + cost.row_ms, 0.0);
  EXPECT_GE(cost.base_ms, 0.0);
  EXPECT_GE(cost.row_ms, 0.0);
  EXPECT_GE(cost.sample_ms, 0.0);
  EXPECT_GE(cost.pair_ms, 0.0);
  EXPECT_EQ(f.runner->sequence_count(), 0);
  EXPECT_EQ(f.answer(request_of(23, 30, 8, 1.0f)), before);
}

TEST(WarmUp, WorksInTheSmallestPool) {
  StepRunnerOptions options;
  options.forward.block_tokens = 16;
  options.forward.step_tokens_max = 4;
  options.forward.logit_rows_max = 1;
  options.context_tokens = 1;
  options.kv_blocks = 1;
  const auto vocab = std::make_shared<const Vocab>();
  auto runner = StepRunner::create(tiny_weights(), vocab, options).value();
  const StepCost cost = warm_up(*runner, Duration::milliseconds(4));
  EXPECT_GT(cost.base_ms, 0.0);
  EXPECT_EQ(cost.pair_ms, 0.0);
}

}  // namespace
}  // namespace lineshaft::worker
