// At stake: the promise that an answer depends on its own prompt, parameters and seed alone. Here
// through StepPlans, as a scheduler would make them: company, chunks, prefix hits, preemption,
// planning ahead, threads. Logits are compared with memcmp. (forward_invariance_test.cc holds the
// same law for the model alone.)
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/rng.h"
#include "support/forward_harness.h"
#include "support/gguf_writer.h"
#include "support/plan_driver.h"
#include "worker/cpu_worker.h"

namespace lineshaft::worker {
namespace {

using Requests = std::vector<std::shared_ptr<const Request>>;
using Rows = std::map<int32_t, std::vector<float>>;  // logits by the position they decide

constexpr int32_t kBlockTokens = 16;
constexpr int32_t kBlocks = 96;
constexpr int32_t kStepTokens = 96;

struct System {
  std::shared_ptr<const model::Weights> weights;
  kernels::Profile profile = kernels::Profile::kCpuInt8;
  kernels::KvType kv_type = kernels::KvType::kF16;
};

struct Manner {
  int threads = 1;
  int ahead = 1;               // plans in flight
  bool together = false;       // all requests in one load, starting at different steps
  int32_t chunk_max = 96;      // rows of a sequence in a step: random up to this
  int preempt_one_in = 0;      // chance a step that a sequence loses its blocks; 0: never
  uint64_t seed = 1;
};

// A worker that keeps every row of logits, by sequence.
class Recorder {
 public:
  Recorder(const System& system, const Manner& manner) : results_(8), manner_(manner) {
    StepRunnerOptions options;
    options.forward.profile = system.profile;
    options.forward.kv_type = system.kv_type;
    options.forward.isa = kernels::best_isa();
    options.forward.block_tokens = kBlockTokens;
    options.forward.step_tokens_max = kStepTokens;
    options.forward.logit_rows_max = 16;
    options.context_tokens = 256;
    options.kv_blocks = kBlocks;
    options.thread_count = manner.threads;
    options.observe_logits = [this](SeqId seq, int32_t position, std::span<const float> logits) {
      rows_[seq.value][position].assign(logits.begin(), logits.end());
    };
    auto runner = StepRunner::create(system.weights, std::make_shared<const Vocab>(),
                                     std::move(options));
    worker_ = std::make_unique<CpuWorker>(std::move(runner).value(), [this](StepResult&& r) {
      EXPECT_TRUE(results_.try_push(std::move(r)));
    });
  }

  // Starts a plan; waits until fewer than `ahead` are in flight.
  void start(StepPlan plan) {
    worker_->start(std::move(plan));
    for (++in_flight_; in_flight_ >= manner_.ahead; --in_flight_) take();
  }

  void finish() {
    for (; in_flight_ > 0; --in_flight_) take();
  }

  const Rows& rows(SeqId seq) const { return rows_.at(seq.value); }
  const std::vector<TokenId>& tokens(SeqId seq) const { return tokens_.at(seq.value); }

 private:
  void take() {
    const auto result = results_.pop();
    for (const SeqResult& r : result->results) {
      if (r.sampled) tokens_[r.seq.value].push_back(r.token);
    }
  }

  BoundedQueue<StepResult> results_;
  Manner manner_;
  int in_flight_ = 0;
  std::map<uint64_t, Rows> rows_;    // written on the worker's thread, read after finish()
  std::map<uint64_t, std::vector<TokenId>> tokens_;
  std::unique_ptr<CpuWorker> worker_;
};

// Runs requests [begin, end) to their ends in the given manner; their logits.
void play(const System& system, const Requests& requests, size_t begin, size_t end,
          const Manner& manner, std::vector<Rows>& out) {
  Recorder recorder(system, manner);
  testing::PlanDriver driver(kBlockTokens, kBlocks);
  const RngKey key(manner.seed);
  uint64_t draws = 0;
  std::vector<SeqId> ids;
  std::vector<int32_t> left;  // tokens to sample
  for (bool busy = true; busy;) {
    if (begin + ids.size() < end) {
      const auto& request = requests[begin + ids.size()];
      ids.push_back(driver.add(request));
      left.push_back(request->sampling.max_tokens);
    }
    busy = begin + ids.size() < end;
    int32_t room = kStepTokens;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (left[i] == 0 || room == 0) continue;
      busy = true;
      if (manner.preempt_one_in > 0 && key.below(draws++, manner.preempt_one_in) == 0) {
        driver.preempt(ids[i]);
      }
      const auto chunk = std::min<int32_t>(
          {room, 1 + static_cast<int32_t>(key.below(draws++, manner.chunk_max)),
           driver.missing(ids[i])});
      if (chunk == driver.missing(ids[i])) --left[i];
      driver.work(ids[i], chunk);
      room -= chunk;
    }
    if (busy && room < kStepTokens) recorder.start(driver.take());
  }
  recorder.finish();
  for (const SeqId id : ids) out.push_back(recorder.rows(id));
}

std::vector<Rows> play(const System& system, const Requests& requests, const Manner& manner) {
  std::vector<Rows> out;
  if (manner.together) {
    play(system, requests, 0, requests.size(), manner, out);
  } else {
    for (size_t i = 0; i < requests.size(); ++i) play(system, requests, i, i + 1, manner, out);
  }
  return out;
}

void expect_equal(const Rows& got, const Rows& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (const auto& [position, row] : expected) {
    const auto at = got.find(position);
    ASSERT_NE(at, got.end()) << what << ", position " << position;
    ASSERT_EQ(at->second.size(), row.size());
    ASSERT_EQ(std::memcmp(at->second.data(), row.data(), row.size() * sizeof(float)), 0)
        << what << ", position " << position;
  }
}

Requests random_requests(uint64_t seed, int count, int32_t prompt_max, int32_t max_tokens,
                         int32_t vocab) {
  Requests out;
  const RngKey key(seed);
  uint64_t draws = 0;
  for (int i = 0; i < count; ++i) {
    auto request = std::make_shared<Request>();
    const auto length = 1 + static_cast<int32_t>(key.below(draws++, prompt_max));
    for (int32_t t = 0; t < length; ++t) {
      request->prompt.push_back(static_cast<TokenId>(key.below(draws++, vocab)));
    }
    request->sampling.max_tokens = max_tokens;
    request->sampling.seed = seed + i;
    request->sampling.temperature = i % 2 ? 1.0f : 0.0f;
    out.push_back(std::move(request));
  }
  return out;
}

void check_manners(const System& system, const Requests& requests, uint64_t seed) {
  const std::vector<Rows> alone = play(system, requests, Manner{});
  const std::pair<const char*, Manner> manners[] = {
      {"chunks", {.threads = 2, .chunk_max = 7, .seed = seed}},
      {"planned ahead", {.threads = 2, .ahead = 2}},
      {"company", {.threads = 2, .together = true, .chunk_max = 12, .seed = seed}},
      {"company, three threads", {.threads = 3, .together = true, .seed = seed}},
      {"company, ahead, preempted",
       {.threads = 2, .ahead = 2, .together = true, .chunk_max = 20, .preempt_one_in = 9,
        .seed = seed}},
  };
  for (const auto& [name, manner] : manners) {
    const std::vector<Rows> got = play(system, requests, manner);
    ASSERT_EQ(got.size(), alone.size());
    for (size_t i = 0; i < got.size(); ++i) {
      expect_equal(got[i], alone[i], std::string(name) + ", request " + std::to_string(i));
    }
  }
}

// The second request finds the blocks that the first one's prompt and answer filled.
void check_prefix_hit(const System& system, int32_t vocab) {
  auto first = std::make_shared<Request>(*random_requests(77, 1, 1, 1, vocab)[0]);
  const RngKey key(78);
  while (first->prompt.size() < 40) {
    first->prompt.push_back(static_cast<TokenId>(key.below(first->prompt.size(), vocab)));
  }
  first->sampling.max_tokens = 30;
  Manner manner;
  manner.threads = 2;
  Recorder recorder(system, manner);
  testing::PlanDriver driver(kBlockTokens, kBlocks);
  const SeqId writer = driver.add(first);
  for (int i = 0; i < 30; ++i) {
    driver.work(writer, 96);
    recorder.start(driver.take());
  }
  auto second = std::make_shared<Request>(*first);
  const auto& answer = recorder.tokens(writer);
  second->prompt.insert(second->prompt.end(), answer.begin(), answer.begin() + 27);
  second->sampling.max_tokens = 5;
  const SeqId reader = driver.add(second);
  driver.share_prefix(writer, reader, 4);  // 64 of 67 positions, 24 of them written by decode
  for (int i = 0; i < 5; ++i) {
    driver.work(reader, 96);
    recorder.start(driver.take());
  }
  recorder.finish();
  expect_equal(recorder.rows(reader), play(system, {second}, Manner{})[0], "prefix hit");
}

struct Case {
  ModelFamily family;
  kernels::WeightType type;
  kernels::Profile profile;
  kernels::KvType kv_type;
};

TEST(WorkerInvariance, RandomTinyModels) {
  using kernels::WeightType;
  const Case cases[] = {
      {ModelFamily::kLlama, WeightType::kQ4_1, kernels::Profile::kCpuInt8, kernels::KvType::kF16},
      {ModelFamily::kLlama, WeightType::kQ4_1, kernels::Profile::kCpuF32, kernels::KvType::kF32},
      {ModelFamily::kQwen2, WeightType::kQ8_0, kernels::Profile::kCpuInt8, kernels::KvType::kF32},
      {ModelFamily::kQwen3, WeightType::kQ6_K, kernels::Profile::kCpuInt8Fast,
       kernels::KvType::kF16},
      {ModelFamily::kQwen3, WeightType::kF16, kernels::Profile::kCpuF32, kernels::KvType::kF16},
      {ModelFamily::kGemma3, WeightType::kQ4_K, kernels::Profile::kCpuInt8, kernels::KvType::kF16},
      {ModelFamily::kGemma3, WeightType::kQ5_0, kernels::Profile::kCpuF32, kernels::KvType::kF16},
  };
  uint64_t seed = 40;
  for (const Case& c : cases) {
    SCOPED_TRACE(std::to_string(seed));
    const System system{
        testing::load_weights(testing::tiny_file(testing::tiny_model(c.family, c.type, seed))),
        c.profile, c.kv_type};
    check_manners(system, random_requests(seed, 7, 75, 8, testing::kTinyVocab), seed);
    check_prefix_hit(system, testing::kTinyVocab);
    ++seed;
  }
}

void check_real(const char* name) {
  const auto file = testing::file_from_environment(name);
  if (file == nullptr) GTEST_SKIP() << name << " is not set: no real model to try";
  const auto weights = testing::load_weights(file);
  for (const auto profile : kernels::kProfiles) {
    const System system{weights, profile, kernels::KvType::kF16};
    check_manners(system, random_requests(9, 3, 40, 3, 40'000), 5);
    check_prefix_hit(system, 40'000);
  }
}

TEST(WorkerInvariance, SmolLM2) { check_real("LINESHAFT_SMOLLM2"); }
TEST(WorkerInvariance, Gemma3) { check_real("LINESHAFT_GEMMA3"); }

}  // namespace
}  // namespace lineshaft::worker
