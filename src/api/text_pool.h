// TextPool: one thread for long bodies: parsing and tokenizing megabytes would hold up every stream
// on the reactor. A full pool is an answer.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "base/queue.h"

namespace lineshaft::api {

class TextPool {
 public:
  TextPool() : thread_([this] { run(); }) {}
  ~TextPool() { stop(); }
  TextPool(const TextPool&) = delete;
  TextPool& operator=(const TextPool&) = delete;

  // False: too much is waiting.
  bool submit(std::function<void()> task) { return queue_.try_push(std::move(task)); }

  // Finishes what waits and joins; idempotent.
  void stop() {
    queue_.close();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    while (auto task = queue_.pop()) (*task)();
  }

  static constexpr size_t kWaitingMax = 64;
  BoundedQueue<std::function<void()>> queue_{kWaitingMax};
  std::thread thread_;
};

}  // namespace lineshaft::api
