// World: virtual time and one heap of events ordered by (time, order of scheduling). Nothing in it
// waits: time jumps to the next event.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/time.h"

namespace lineshaft::sim {

class World {
 public:
  Instant now() const { return now_; }

  // `event` happens at `when`, or now if that has passed; equal times in order of scheduling.
  void at(Instant when, std::function<void()> event) {
    events_.emplace(std::pair(when < now_ ? now_ : when, next_++), std::move(event));
  }

  // Lets the next event happen; false when there is none.
  bool step() {
    if (events_.empty()) return false;
    auto node = events_.extract(events_.begin());
    now_ = node.key().first;
    node.mapped()();
    return true;
  }

 private:
  Instant now_;
  uint64_t next_ = 0;
  std::map<std::pair<Instant, uint64_t>, std::function<void()>> events_;
};

}  // namespace lineshaft::sim
