#include "base/clock.h"

#include <ctime>

namespace lineshaft {

Instant SystemClock::now() const {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
}

int64_t unix_seconds() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec;
}

}  // namespace lineshaft
