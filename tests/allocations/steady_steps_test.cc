// At stake: steps in which sequences just go on allocate nothing, on any thread: planning,
// building the batch, the forward pass, sampling, metrics, handing tokens out.
//
// This program counts every call of operator new. (OpenSSL, which names a block when it is full,
// has memory of its own; it is not counted.)
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>

#include "base/clock.h"
#include "base/queue.h"
#include "lineshaft/local_engine.h"
#include "support/gguf_writer.h"

namespace {

std::atomic<int64_t> news{0};

void* counted(std::size_t size, std::size_t alignment) {
  news.fetch_add(1, std::memory_order_relaxed);
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

[[gnu::noinline]]
void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
[[gnu::noinline]]
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]]
void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]]
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]]
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]]
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace lineshaft::app {
namespace {

constexpr int kSequences = 16;
constexpr int kGenerated = 160;
// Steps before the first are the warm-up: sequences start in them. After the last they end.
constexpr int kFirst = 40;
constexpr int kLast = 150;

// Reads the counter while all sequences are between their tokens kFirst and kLast.
class Watch final : public TokenListener {
 public:
  void deliver(TokenEvent&& event) override {
    if (event.kind == TokenEvent::Kind::kFinish && ++finished_ == kSequences) {
      done_.try_push(true);
    }
    if (event.kind != TokenEvent::Kind::kToken) return;
    if (event.position == kFirst && ++begun_ == kSequences) before_ = news.load();
    if (event.position == kLast && ended_++ == 0) after_ = news.load();
  }

  bool wait() { return done_.pop_for(Duration::seconds(60)).has_value(); }
  int64_t counted() const { return after_ - before_; }
  bool overlapped() const { return begun_ == kSequences && before_ <= after_; }

 private:
  int finished_ = 0;
  int begun_ = 0;
  int ended_ = 0;
  int64_t before_ = -1;
  int64_t after_ = -1;
  BoundedQueue<bool> done_{1};
};

LoadedModel tiny(const Config& config) {
  const auto bytes = testing::tiny_gguf(
      testing::tiny_model(ModelFamily::kLlama, kernels::WeightType::kQ8_0, 3));
  std::ofstream(config.model.model, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  auto model = load_model(config);
  if (!model.ok()) throw std::runtime_error(std::string(model.status().message()));
  return std::move(*model);
}

Config tiny_config() {
  Config config;
  config.model.model = ::testing::TempDir() + "lineshaft_steady_steps.gguf";
  config.model.threads = 2;
  config.memory.block_tokens = 16;   // blocks become full in every few steps
  config.memory.max_context = 512;
  config.memory.kv_memory_bytes = 64 << 20;
  return config;
}

// Every way of choosing a token, in turn.
SamplingParams sampling(int i) {
  SamplingParams out;
  out.max_tokens = kGenerated;
  out.ignore_eos = true;
  out.seed = static_cast<uint64_t>(i);
  out.temperature = i % 4 == 0 ? 0.0f : 0.8f;
  if (i % 4 == 2) out.top_k = 20;
  if (i % 4 == 3) out.top_p = 0.9f;
  if (i % 5 == 1) out.repetition_penalty = 1.2f;
  if (i % 5 == 2) out.min_p = 0.02f;
  return out;
}

// Calls of operator new within about kLast - kFirst steps of a fresh engine.
void count_allocations(bool plan_ahead, int64_t* counted) {
  Config config = tiny_config();
  config.scheduling.plan_ahead = plan_ahead;
  const LoadedModel model = tiny(config);
  Metrics metrics;
  auto engine = LocalEngine::start(model, config, {.tenants = {}, .metrics = &metrics});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto watch = std::make_shared<Watch>();
  for (int i = 0; i < kSequences; ++i) {
    auto request = std::make_shared<Request>();
    request->id = (*engine)->next_id();
    request->prompt = {1, 5 + i, 40, 41};
    request->sampling = sampling(i);
    ASSERT_TRUE((*engine)->submit(request, watch).ok());
  }
  ASSERT_TRUE(watch->wait());
  ASSERT_TRUE(watch->overlapped());
  *counted = watch->counted();
}

// A ring between threads grows once to the most that ever waited in it, which on a busy machine may
// be late: another engine is then asked. What a step allocates, each of them would show.
void expect_no_allocations(bool plan_ahead) {
  int64_t counted = -1;
  for (int engines = 0; engines < 5 && counted != 0; ++engines) {
    ASSERT_NO_FATAL_FAILURE(count_allocations(plan_ahead, &counted));
    EXPECT_LE(counted, 4) << "in about " << kLast - kFirst << " steps";
  }
  EXPECT_EQ(counted, 0) << "in about " << kLast - kFirst << " steps";
}

TEST(SteadySteps, AllocateNothing) { expect_no_allocations(true); }

TEST(SteadySteps, AllocateNothingWithoutPlanningAhead) { expect_no_allocations(false); }

TEST(SteadySteps, TheCounterCounts) {
  const int64_t before = news.load();
  ::operator delete(::operator new(8));
  EXPECT_GT(news.load(), before);
}

}  // namespace
}  // namespace lineshaft::app
