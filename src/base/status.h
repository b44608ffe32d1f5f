// Status and StatusOr: how a call across a border of the house says that it failed.
//
// The only file that touches Abseil (its string_view is not std::string_view on Debian 12).
// A Status is for what a user, the load or the world may cause; what only we can cause is a CHECK.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/cord.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace lineshaft {

using Status = absl::Status;
template <typename T>
using StatusOr = absl::StatusOr<T>;
using StatusCode = absl::StatusCode;

inline Status ok_status() { return absl::OkStatus(); }

inline Status make_status(StatusCode code, std::string_view message) {
  return Status(code, absl::string_view(message.data(), message.size()));
}

inline std::string_view message_of(const Status& status) {
  return {status.message().data(), status.message().size()};
}

// The caller's input is wrong; the sentence names the field, key, byte or line.
template <typename... Args>
Status invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kInvalidArgument,
                     fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Status not_found(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kNotFound, fmt::format(format, std::forward<Args>(args)...));
}

// A number or length is beyond a limit that the sentence states.
template <typename... Args>
Status out_of_range(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kOutOfRange, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Status unauthenticated(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kUnauthenticated,
                     fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Status permission_denied(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kPermissionDenied,
                     fmt::format(format, std::forward<Args>(args)...));
}

// A queue, quota or pool is full; trying later may help.
template <typename... Args>
Status resource_exhausted(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kResourceExhausted,
                     fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
Status unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kUnimplemented, fmt::format(format, std::forward<Args>(args)...));
}

// The world failed: a peer, a file, a socket.
template <typename... Args>
Status unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kUnavailable, fmt::format(format, std::forward<Args>(args)...));
}

// Which field of the caller's input a Status is about, as a path: "messages[1].content".
inline Status with_field(Status status, std::string_view field) {
  status.SetPayload("field", absl::Cord(absl::string_view(field.data(), field.size())));
  return status;
}
inline std::string field_of(const Status& status) {
  const auto field = status.GetPayload("field");
  return field ? std::string(*field) : std::string();
}

// A word for programs that is finer than the code: "context_length_exceeded".
inline Status with_reason(Status status, std::string_view reason) {
  status.SetPayload("reason", absl::Cord(absl::string_view(reason.data(), reason.size())));
  return status;
}
inline std::string reason_of(const Status& status) {
  const auto reason = status.GetPayload("reason");
  return reason ? std::string(*reason) : std::string();
}

// Bytes are there but not what they should be: checksum, truncation, corrupt structure.
template <typename... Args>
Status data_loss(fmt::format_string<Args...> format, Args&&... args) {
  return make_status(StatusCode::kDataLoss, fmt::format(format, std::forward<Args>(args)...));
}

// A status that trying again after `wait` may mend, and how long that was; none when not said.
Status with_retry_after(Status status, Duration wait);
std::optional<Duration> retry_after_of(const Status& status);

}  // namespace lineshaft

#define LS_CONCAT_INNER(a, b) a##b
#define LS_CONCAT(a, b) LS_CONCAT_INNER(a, b)

// Leaves the function with the Status of `expr` when that is not ok.
#define LS_RETURN_IF_ERROR(expr)                                    \
  do {                                                              \
    ::lineshaft::Status ls_status_ = (expr);                        \
    if (!ls_status_.ok()) return ls_status_;                        \
  } while (false)

// LS_ASSIGN_OR_RETURN(auto x, f()): x is the value, or the function leaves with the Status.
#define LS_ASSIGN_OR_RETURN(lhs, expr) \
  LS_ASSIGN_OR_RETURN_IMPL(LS_CONCAT(ls_status_or_, __LINE__), lhs, expr)
#define LS_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()
