#include "base/status.h"

#include <absl/strings/cord.h>

#include <charconv>

namespace lineshaft {
namespace {

constexpr char kRetryAfter[] = "lineshaft/retry-after-ns";

}  // namespace

Status with_retry_after(Status status, Duration wait) {
  status.SetPayload(kRetryAfter, absl::Cord(fmt::format("{}", wait.ns).c_str()));
  return status;
}

std::optional<Duration> retry_after_of(const Status& status) {
  const auto payload = status.GetPayload(kRetryAfter);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  Duration wait;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), wait.ns);
  if (parsed.ec != std::errc()) return std::nullopt;
  return wait;
}

}  // namespace lineshaft
