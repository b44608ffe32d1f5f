// EventMailbox: token events from the engine's thread to the HTTP reactor. The engine's side takes
// a push and, when the reactor sleeps, one wake-up; all text work happens on the other side.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "base/queue.h"
#include "core/doors/request_sink.h"

namespace lineshaft::api {

// Takes the events of one HTTP request, on the reactor thread.
class EventReceiver {
 public:
  virtual ~EventReceiver() = default;
  // `part`: which of the requests that were submitted for it.
  virtual void on_event(int32_t part, TokenEvent&& event) = 0;
  // Events were lost since the mailbox was full: the answer can't be given.
  virtual void on_overflow() = 0;

  std::atomic<bool> overflowed{false};
};

class EventMailbox : public std::enable_shared_from_this<EventMailbox> {
 public:
  // `post` runs a function on the reactor thread.
  explicit EventMailbox(std::function<void(std::function<void()>)> post)
      : post_(std::move(post)) {}

  // A listener for RequestSink::submit.
  std::shared_ptr<TokenListener> listener(std::shared_ptr<EventReceiver> receiver, int32_t part) {
    return std::make_shared<Listener>(shared_from_this(), std::move(receiver), part);
  }

 private:
  struct Item {
    std::shared_ptr<EventReceiver> receiver;
    int32_t part = 0;
    TokenEvent event;
  };

  class Listener final : public TokenListener {
   public:
    Listener(std::shared_ptr<EventMailbox> mailbox, std::shared_ptr<EventReceiver> receiver,
             int32_t part)
        : mailbox_(std::move(mailbox)), receiver_(std::move(receiver)), part_(part) {}
    void deliver(TokenEvent&& event) override {
      mailbox_->push({receiver_, part_, std::move(event)});
    }

   private:
    const std::shared_ptr<EventMailbox> mailbox_;
    const std::shared_ptr<EventReceiver> receiver_;
    const int32_t part_;
  };

  void push(Item&& item) {
    const std::shared_ptr<EventReceiver> receiver = item.receiver;
    if (!queue_.try_push(std::move(item))) {
      if (!receiver->overflowed.exchange(true)) post_([receiver] { receiver->on_overflow(); });
      return;
    }
    if (scheduled_.exchange(true)) return;
    post_([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->drain();
    });
  }

  void drain() {
    // Before the pops: an event that comes after the last of them schedules a drain of its own.
    scheduled_.store(false);
    while (auto item = queue_.try_pop()) {
      if (item->receiver->overflowed.load()) continue;  // a gap is worse than an end
      item->receiver->on_event(item->part, std::move(item->event));
    }
  }

  // Some seconds of tokens of a fast engine: a reactor that is so far behind is lost anyway.
  static constexpr size_t kCapacity = size_t{1} << 16;

  const std::function<void(std::function<void()>)> post_;
  BoundedQueue<Item> queue_{kCapacity};
  std::atomic<bool> scheduled_{false};
};

}  // namespace lineshaft::api
