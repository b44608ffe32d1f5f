// FairnessChecker: how long requests went without a sign of progress (from arrival to the first
// token, and between tokens of a choice), against a bound. Sees events and times only.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/token_event.h"

namespace lineshaft::sim {

class FairnessChecker {
 public:
  explicit FairnessChecker(Duration bound) : bound_(bound) {}

  void on_event(const TokenEvent& event, Instant now) {
    const std::pair key(event.request.value, event.choice);
    if (event.kind == TokenEvent::Kind::kAccepted) {
      accepted_[event.request.value] = now;
      return;
    }
    const auto accepted = accepted_.find(event.request.value);
    if (accepted == accepted_.end()) return;  // refused
    const auto [last, first] = last_.try_emplace(key, accepted->second);
    const Duration gap = now - last->second;
    if (first) {
      first_token_.try_emplace(event.request.value, gap);
    } else {
      gap_max_ = std::max(gap_max_, gap);
    }
    if (gap > bound_) {
      violations_.push_back(fmt::format("request {} choice {}: {:.1f} ms without progress",
                                        key.first, key.second, gap.in_milliseconds()));
    }
    last->second = now;
  }

  const std::vector<std::string>& violations() const { return violations_; }
  // From acceptance to the first token (or end), by request.
  const std::map<uint64_t, Duration>& first_token() const { return first_token_; }
  Duration gap_max() const { return gap_max_; }

 private:
  Duration bound_;
  std::map<uint64_t, Duration> first_token_;
  Duration gap_max_;
  std::map<uint64_t, Instant> accepted_;
  std::map<std::pair<uint64_t, int32_t>, Instant> last_;
  std::vector<std::string> violations_;
};

}  // namespace lineshaft::sim
