// Instant and Duration: nanoseconds with types. Reads no clock (that is base/clock.h).
#pragma once

#include <compare>
#include <cstdint>

namespace lineshaft {

// A span of time; may be negative as the difference of two instants.
struct Duration {
  int64_t ns = 0;

  static constexpr Duration nanoseconds(int64_t n) { return {n}; }
  static constexpr Duration microseconds(int64_t n) { return {n * 1'000}; }
  static constexpr Duration milliseconds(int64_t n) { return {n * 1'000'000}; }
  static constexpr Duration seconds(int64_t n) { return {n * 1'000'000'000}; }
  static constexpr Duration from_seconds(double s) { return {static_cast<int64_t>(s * 1e9)}; }
  static constexpr Duration from_milliseconds(double ms) {
    return {static_cast<int64_t>(ms * 1e6)};
  }
  constexpr double in_seconds() const { return static_cast<double>(ns) * 1e-9; }
  constexpr double in_milliseconds() const { return static_cast<double>(ns) * 1e-6; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration o) const { return {ns + o.ns}; }
  constexpr Duration operator-(Duration o) const { return {ns - o.ns}; }
  constexpr Duration operator*(int64_t k) const { return {ns * k}; }
};

// A point on one clock's axis; the origin is the clock's own. Deadline "none" is Instant::never().
struct Instant {
  int64_t ns = 0;

  static constexpr Instant never() { return {INT64_MAX}; }
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Duration operator-(Instant o) const { return {ns - o.ns}; }
  constexpr Instant operator+(Duration d) const { return {ns + d.ns}; }
};

using Deadline = Instant;

}  // namespace lineshaft
