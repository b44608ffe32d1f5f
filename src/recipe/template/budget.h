// Budget: how much work and memory one rendering may still take. A template that would run for ever
// or grow without end runs out of it instead.
#pragma once

#include <cstdint>

namespace lineshaft::recipe::jinja {

class Budget {
 public:
  Budget(int64_t steps, int64_t bytes) : steps_(steps), bytes_(bytes) {}

  // Takes steps (one a node, an item or a few bytes looked at); false when there are none left.
  bool step(int64_t count = 1) {
    steps_ = count > steps_ ? -1 : steps_ - count;
    return steps_ >= 0;
  }
  // Takes bytes of values made, dropped ones too.
  bool make(int64_t bytes) {
    bytes_ = bytes > bytes_ ? -1 : bytes_ - bytes;
    return bytes_ >= 0 && step(bytes / 64);
  }
  bool spent() const { return steps_ < 0 || bytes_ < 0; }

 private:
  int64_t steps_;
  int64_t bytes_;
};

}  // namespace lineshaft::recipe::jinja
