#include "base/thread_team.h"

#include <immintrin.h>

#include "base/check.h"

namespace lineshaft {
namespace {

// About 20 us of pause instructions: longer than any wait between balanced ranks of a small
// model's step (a few us), of the order of what a sleep and wake-up costs (12 us each way,
// measured on the project's machines).
constexpr int kSpins = 500;

}  // namespace

ThreadTeam::ThreadTeam(int count) : count_(count) {
  LS_CHECK(count >= 1);
  for (int rank = 1; rank < count; ++rank) threads_.emplace_back([this, rank] { loop(rank); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (auto& t : threads_) t.join();
}

void ThreadTeam::wait_change(std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    _mm_pause();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

void ThreadTeam::run(const std::function<void(int)>& fn) {
  fn_ = &fn;
  if (count_ > 1) {
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  fn(0);
  barrier();
}

void ThreadTeam::barrier() {
  if (count_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(count_)) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_release);
    phase_.notify_all();
  } else {
    wait_change(phase_, phase);
  }
}

void ThreadTeam::loop(int rank) {
  uint32_t seen = 0;
  while (true) {
    wait_change(generation_, seen);
    ++seen;
    if (stop_.load()) return;
    (*fn_)(rank);
    barrier();
  }
}

}  // namespace lineshaft
