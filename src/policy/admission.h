// Admission: who may join the queue. Checks a request against context, pool, queue and the limits
// of its tenant, and keeps each tenant's count of requests and balance of tokens.
//
// Sees sizes only; never a key, never the request itself. Time is an argument.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "core/limits.h"

namespace lineshaft::policy {

struct TenantLimits {
  int32_t requests_max = 0;        // unfinished at once; 0: no limit
  int64_t tokens_per_minute = 0;   // prompt and generated; 0: no limit
};

struct AdmissionConfig {
  Limits limits;
  TenantLimits default_limits;                    // of tenants that are not in the map
  std::map<std::string, TenantLimits> tenants;
};

// What admission needs to know of a request.
struct Order {
  std::string tenant;
  int64_t prompt_tokens = 0;
  int64_t max_tokens = 0;
  int64_t choices = 0;
};

class Admission {
 public:
  explicit Admission(AdmissionConfig config) : config_(std::move(config)) {}

  // ok: the request counts as its tenant's until leave(), and its prompt is charged. Otherwise
  // nothing is changed and the sentence says which limit, the numbers and what to do:
  //   kInvalidArgument    empty prompt, max_tokens or n below 1, n above choices_max
  //   kOutOfRange         prompt + max_tokens can't fit the context or the pool, ever
  //   kResourceExhausted  queue or tenant limit; carries retry_after_of()
  // `waiting`: admitted requests that have not started. `backlog`: predicted time of their work.
  Status admit(const Order& order, int32_t waiting, Duration backlog, Instant now);

  // Tokens were generated for the tenant. The balance may go below zero: a request that runs is
  // not stopped, the next one waits until the debt is paid.
  void charge(const std::string& tenant, int64_t tokens, Instant now);

  // A request that was admitted has finished.
  void leave(const std::string& tenant);

  // The longest prompt + max_tokens of one choice that context and pool can hold.
  static int64_t length_max(const Limits& limits);

 private:
  struct Account {
    int32_t requests = 0;
    double balance = 0.0;    // tokens; at most tokens_per_minute
    Instant updated;
  };
  const TenantLimits& limits_of(const std::string& tenant) const;
  Status check_shape(const Order& order) const;
  Status check_tenant(const Order& order, const Account& account) const;
  void refill(Account& account, const TenantLimits& limits, Instant now) const;
  Account& account_of(const std::string& tenant, Instant now);

  AdmissionConfig config_;
  std::map<std::string, Account> accounts_;
};

}  // namespace lineshaft::policy
