// Clock: who may be asked for the time. SystemClock is the only code that asks the OS.
#pragma once

#include "base/time.h"

namespace lineshaft {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
};

// Monotonic time since an arbitrary origin; thread-safe.
class SystemClock final : public Clock {
 public:
  Instant now() const override;
};

// Seconds since 1970-01-01 UTC, for `created` fields and logs only; never for a decision.
int64_t unix_seconds();

}  // namespace lineshaft
