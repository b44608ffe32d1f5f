// ThreadTeam: n ranks that run one function together, with a barrier inside it (SPMD).
//
// A step of a model is one run(): every rank walks the same layers, works on its static share of
// each operation's outputs, and meets the others at barriers. Which rank computes an output never
// changes its bits (kernels/numerics.h). Waiting spins briefly, then sleeps, so that a team on a
// busy or small machine does not starve the rest of the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lineshaft {

// [begin, end) of n items for rank r of count: contiguous, sizes differ by at most one.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};
constexpr Range share_of(int64_t n, int rank, int count) {
  return {n * rank / count, n * (rank + 1) / count};
}

class ThreadTeam {
 public:
  // The calling thread of run() is rank 0; count - 1 threads are started. count >= 1.
  explicit ThreadTeam(int count);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int count() const { return count_; }

  // Calls fn(rank) on every rank and returns when all have returned. Not reentrant; one caller.
  void run(const std::function<void(int rank)>& fn);

  // To be called by every rank, the same number of times, inside run().
  void barrier();

 private:
  void loop(int rank);
  // Waits until `word` is no longer `old`.
  static void wait_change(std::atomic<uint32_t>& word, uint32_t old);

  const int count_;
  const std::function<void(int)>* fn_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};  // rises when a run starts
  alignas(64) std::atomic<uint32_t> arrived_{0};     // ranks waiting at the barrier
  alignas(64) std::atomic<uint32_t> phase_{0};       // rises when a barrier opens
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace lineshaft
