#include "api/error_map.h"

#include <utility>

#include "recipe/dialect/openai_reply.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";

std::string retry_after(const Status& status) {
  const auto seconds = status.GetPayload("retry_after");
  return seconds ? std::string(*seconds) : "1";
}

}  // namespace

ErrorForm error_form(const Status& status) {
  const std::string reason = reason_of(status);
  const auto form = [&](int http, std::string_view type, std::string_view code) {
    return ErrorForm{http, type, reason.empty() ? std::string(code) : reason};
  };
  switch (status.code()) {
    case StatusCode::kInvalidArgument: return form(400, kInvalid, "");
    case StatusCode::kFailedPrecondition: return form(400, kInvalid, "");
    case StatusCode::kUnimplemented: return form(400, kInvalid, "unsupported");
    case StatusCode::kOutOfRange: return form(400, kInvalid, "context_length_exceeded");
    case StatusCode::kUnauthenticated: return form(401, kInvalid, "invalid_api_key");
    case StatusCode::kPermissionDenied: return form(403, kInvalid, "forbidden");
    case StatusCode::kNotFound: return form(404, kInvalid, "not_found");
    case StatusCode::kResourceExhausted:
      return form(429, "rate_limit_error", "rate_limit_exceeded");
    case StatusCode::kUnavailable: return form(503, "server_error", "unavailable");
    case StatusCode::kDeadlineExceeded: return form(504, "server_error", "deadline_exceeded");
    default: return form(500, "server_error", "internal_error");
  }
}

std::string error_body(const Status& status) {
  const ErrorForm form = error_form(status);
  return recipe::openai_error_body(message_of(status), form.type, field_of(status), form.code);
}

net::HttpResponse error_response(const Status& status) {
  const ErrorForm form = error_form(status);
  net::HttpResponse response;
  response.status = form.status;
  response.headers = {{"content-type", "application/json"}};
  if (form.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  if (form.status == 429 || form.status == 503) {
    response.headers.emplace_back("retry-after", retry_after(status));
  }
  response.body = error_body(status);
  return response;
}

Status with_retry_after(Status status, int64_t seconds) {
  status.SetPayload("retry_after", absl::Cord(std::to_string(seconds)));
  return status;
}

}  // namespace lineshaft::api
