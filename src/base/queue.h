// BoundedQueue: the only way between threads. Many producers, many consumers, a fixed capacity.
//
// A full queue is an answer (try_push returns false), never a wait. Items lie in a ring that grows
// up to the capacity and stays: a queue in steady use allocates nothing.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"

namespace lineshaft {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when the queue is full or closed; the value is then left as it was.
  bool try_push(T&& value) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || count_ >= capacity_) return false;
      if (count_ == ring_.size()) grow();
      ring_[(first_ + count_) % ring_.size()].emplace(std::move(value));
      ++count_;
    }
    ready_.notify_one();
    return true;
  }

  std::optional<T> try_pop() {
    std::lock_guard lock(mutex_);
    return take();
  }

  // Waits for an item; nullopt when the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return closed_ || count_ > 0; });
    return take();
  }

  // Waits up to `timeout`; nullopt when nothing came (or closed and empty).
  std::optional<T> pop_for(Duration timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::nanoseconds(timeout.ns),
                    [&] { return closed_ || count_ > 0; });
    return take();
  }

  // No push succeeds afterwards; what is inside can still be popped.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  size_t size() const {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::optional<T> take() {
    if (count_ == 0) return std::nullopt;
    std::optional<T> out = std::exchange(ring_[first_], std::nullopt);
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return out;
  }

  void grow() {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(first_), ring_.end());
    first_ = 0;
    ring_.resize(std::min(capacity_, std::max<size_t>(4, 2 * ring_.size())));
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<std::optional<T>> ring_;
  size_t first_ = 0;   // of count_ items in ring_
  size_t count_ = 0;
  bool closed_ = false;
};

}  // namespace lineshaft
