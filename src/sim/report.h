// Report: what came of a simulated run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "node/stats.h"
#include "sim/checkers/token_stream.h"

namespace lineshaft::sim {

// Folds events and their times into one number: equal logs, equal hash.
class EventLogHash {
 public:
  void add(const TokenEvent& event, Instant now) {
    for (const uint64_t value :
         {static_cast<uint64_t>(now.ns), static_cast<uint64_t>(event.kind), event.request.value,
          static_cast<uint64_t>(event.choice), static_cast<uint64_t>(event.position),
          static_cast<uint64_t>(event.token), static_cast<uint64_t>(event.finish),
          static_cast<uint64_t>(event.usage.cached_tokens)}) {
      hash_ = mix64(hash_ ^ mix64(value));
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

struct Report {
  std::vector<std::string> violations;  // of all checkers; empty in a right run
  uint64_t events_hash = 0;
  uint64_t plans_hash = 0;
  uint64_t refused = 0;
  uint64_t late = 0;
  uint64_t cancelled = 0;
  std::map<uint64_t, Duration> first_token;  // from acceptance, by request
  Duration gap_max;
  Instant end;
  node::EngineStats stats;
  TokenStreamChecker::Answers answers;
};

}  // namespace lineshaft::sim
