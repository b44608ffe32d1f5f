// TokenStreamChecker: whether each request's events are what its caller was promised
// (core/token_event.h) and its tokens those that the simulated model defines. Sees events, requests
// and what the callers did; knows nothing of the engine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/request.h"
#include "core/token_event.h"
#include "sim/workload.h"

namespace lineshaft::sim {

class TokenStreamChecker {
 public:
  explicit TokenStreamChecker(const std::vector<Caller>& callers);

  // A caller gave up (a choice, or with -1 the request); after this kCancelled is a right end.
  void on_cancel(RequestId request, int32_t choice);
  void on_event(const TokenEvent& event, Instant now);
  // After the last event: everything submitted has its end.
  void at_end();

  const std::vector<std::string>& violations() const { return violations_; }
  // Tokens delivered, by request and choice.
  using Answers = std::map<std::pair<uint64_t, int32_t>, std::vector<TokenId>>;
  const Answers& answers() const { return answers_; }
  uint64_t refused() const { return refused_; }
  uint64_t late() const { return late_; }
  uint64_t cancelled() const { return cancelled_; }

 private:
  struct Expected {
    std::vector<TokenId> tokens;
    bool stops = false;
    bool cancelled = false;
    bool finished = false;
  };
  struct Order {
    const Caller* caller;
    bool accepted = false;
    bool refused = false;
    std::map<int32_t, Expected> choices;
  };
  void on_token(Order& order, const TokenEvent& event);
  void on_finish(Order& order, const TokenEvent& event, Instant now);
  void on_refusal(Order& order, const TokenEvent& event, Instant now);
  void check_end(const Order& order, const Expected& expected, const TokenEvent& event,
                 Instant now);
  void violation(const TokenEvent& event, const std::string& what);

  std::map<uint64_t, Order> orders_;
  Answers answers_;
  std::vector<std::string> violations_;
  uint64_t refused_ = 0;
  uint64_t late_ = 0;
  uint64_t cancelled_ = 0;
};

}  // namespace lineshaft::sim
