#include "policy/admission.h"

#include <algorithm>

#include "base/check.h"

namespace lineshaft::policy {
namespace {

constexpr double kSecondsPerMinute = 60.0;

int64_t pool_tokens(const Limits& limits) {
  return int64_t{limits.kv_blocks} * limits.block_tokens;
}

}  // namespace

// The last token of an answer is never an input: its KV takes no place.
int64_t Admission::length_max(const Limits& limits) {
  return std::min(int64_t{limits.context_tokens}, pool_tokens(limits) + 1);
}

const TenantLimits& Admission::limits_of(const std::string& tenant) const {
  const auto it = config_.tenants.find(tenant);
  return it == config_.tenants.end() ? config_.default_limits : it->second;
}

Status Admission::check_shape(const Order& order) const {
  const Limits& limits = config_.limits;
  if (order.prompt_tokens < 1) return invalid_argument("prompt: has no tokens");
  if (order.max_tokens < 1) {
    return invalid_argument("max_tokens: {} is less than 1", order.max_tokens);
  }
  if (order.choices < 1 || order.choices > limits.choices_max) {
    return invalid_argument("n: {} is not in 1 to {}", order.choices, limits.choices_max);
  }
  // Compared without adding, so that no size overflows.
  if (order.prompt_tokens >= limits.context_tokens) {
    return out_of_range("prompt: {} tokens leave no room for an answer in the context of {} tokens "
                        "(--max-context)", order.prompt_tokens, limits.context_tokens);
  }
  if (order.max_tokens > limits.context_tokens - order.prompt_tokens) {
    return out_of_range("max_tokens: a prompt of {} tokens and {} generated ones exceed the "
                        "context of {} tokens (--max-context)",
                        order.prompt_tokens, order.max_tokens, limits.context_tokens);
  }
  if (order.prompt_tokens + order.max_tokens > length_max(limits)) {
    return out_of_range("max_tokens: a prompt of {} tokens and {} generated ones exceed the KV "
                        "pool of {} tokens (--kv-memory)",
                        order.prompt_tokens, order.max_tokens, pool_tokens(limits));
  }
  return ok_status();
}

void Admission::refill(Account& account, const TenantLimits& limits, Instant now) const {
  const double rate = static_cast<double>(limits.tokens_per_minute);
  const double passed = std::max(0.0, (now - account.updated).in_seconds());
  account.balance = std::min(rate, account.balance + passed * rate / kSecondsPerMinute);
  account.updated = now;
}

// A tenant's first account starts with a full minute's tokens.
Admission::Account& Admission::account_of(const std::string& tenant, Instant now) {
  const TenantLimits& limits = limits_of(tenant);
  const auto [it, made] = accounts_.try_emplace(tenant);
  if (made) {
    it->second.balance = static_cast<double>(limits.tokens_per_minute);
    it->second.updated = now;
  }
  refill(it->second, limits, now);
  return it->second;
}

Status Admission::check_tenant(const Order& order, const Account& account) const {
  const TenantLimits& limits = limits_of(order.tenant);
  if (limits.requests_max > 0 && account.requests >= limits.requests_max) {
    return with_retry_after(
        resource_exhausted("this key has {} unfinished requests, its limit is {}; retry when one "
                           "has finished", account.requests, limits.requests_max),
        Duration::seconds(1));
  }
  if (limits.tokens_per_minute > 0 && account.balance <= 0.0) {
    const double rate = static_cast<double>(limits.tokens_per_minute) / kSecondsPerMinute;
    const Duration wait = Duration::from_seconds((1.0 - account.balance) / rate);
    return with_retry_after(
        resource_exhausted("this key has used its {} tokens a minute; retry after {:.1f} s",
                           limits.tokens_per_minute, wait.in_seconds()),
        wait);
  }
  return ok_status();
}

Status Admission::admit(const Order& order, int32_t waiting, Duration backlog, Instant now) {
  LS_RETURN_IF_ERROR(check_shape(order));
  if (waiting >= config_.limits.queue_max) {
    const Duration wait = std::max(Duration::seconds(1), backlog);
    return with_retry_after(
        resource_exhausted("the queue is full: {} requests wait (--queue-max); retry after "
                           "{:.0f} s", waiting, wait.in_seconds()),
        wait);
  }
  Account& account = account_of(order.tenant, now);
  LS_RETURN_IF_ERROR(check_tenant(order, account));
  ++account.requests;
  account.balance -= static_cast<double>(order.prompt_tokens);
  return ok_status();
}

void Admission::charge(const std::string& tenant, int64_t tokens, Instant now) {
  account_of(tenant, now).balance -= static_cast<double>(tokens);
}

void Admission::leave(const std::string& tenant) {
  const auto it = accounts_.find(tenant);
  LS_CHECK(it != accounts_.end() && it->second.requests > 0);
  --it->second.requests;
}

}  // namespace lineshaft::policy
