// FairShare: deficit round robin over the four length buckets of one priority (Shreedhar and
// Varghese, 1995), with milliseconds as the unit, so that a few long prompts and many short ones
// share the prompt work of steps. Knows buckets only; who is in them is the caller's business.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

namespace lineshaft::policy {

constexpr int kBuckets = 4;

// The bucket of uncached work that takes `ms`: up to 1, 4 and 16 whole steps, and above. In steps
// rather than tokens, so that the boundaries mean the same on a slow and on a fast machine.
inline int bucket_of(double ms, double step_ms) {
  if (ms <= step_ms) return 0;
  if (ms <= 4 * step_ms) return 1;
  return ms <= 16 * step_ms ? 2 : 3;
}

class FairShare {
 public:
  // Each nonempty bucket may spend this much a round.
  explicit FairShare(double quantum_ms) : quantum_ms_(quantum_ms) {}

  // Spends up to budget_ms. `serve(bucket, ms)` does one piece of work that costs at most ms and
  // returns its cost; kTooDear when its next piece costs more; nullopt when it has none. A zero
  // cost may be returned for finitely many pieces only. Returns what is left of the budget.
  template <typename Serve>
  double run(double budget_ms, Serve serve) {
    std::array<bool, kBuckets> closed{};
    int open = kBuckets;
    while (open > 0) {
      const size_t b = static_cast<size_t>(cursor_);
      if (closed[b]) {
        advance();
        continue;
      }
      if (!topped_up_) {
        deficit_ms_[b] += quantum_ms_;
        topped_up_ = true;
      }
      const std::optional<double> cost = serve(cursor_, std::min(deficit_ms_[b], budget_ms));
      if (!cost) {
        closed[b] = true;
        --open;
        deficit_ms_[b] = 0.0;
        advance();
      } else if (*cost == kTooDear) {
        if (budget_ms <= deficit_ms_[b]) return budget_ms;  // its turn goes on in the next step
        advance();
      } else {
        deficit_ms_[b] -= *cost;
        budget_ms -= *cost;
      }
    }
    return budget_ms;
  }

  static constexpr double kTooDear = -1.0;

 private:
  void advance() {
    cursor_ = (cursor_ + 1) % kBuckets;
    topped_up_ = false;
  }

  double quantum_ms_;
  std::array<double, kBuckets> deficit_ms_{};
  int cursor_ = 0;
  bool topped_up_ = false;
};

}  // namespace lineshaft::policy
