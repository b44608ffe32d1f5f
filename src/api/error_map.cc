#include "api/error_map.h"

#include <utility>

#include "base/json.h"
#include "recipe/dialect/openai_reply.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";

// One kind of failure in both families' words.
struct Row {
  int status;
  std::string_view type;  // OpenAI's
  std::string_view code;  // OpenAI's, unless the Status names one
  std::string_view anthropic_type;
  int anthropic_status;
};

Row row_of(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition: return {400, kInvalid, "", kInvalid, 400};
    case StatusCode::kUnimplemented: return {400, kInvalid, "unsupported", kInvalid, 400};
    case StatusCode::kOutOfRange:
      return {400, kInvalid, "context_length_exceeded", kInvalid, 400};
    case StatusCode::kUnauthenticated:
      return {401, kInvalid, "invalid_api_key", "authentication_error", 401};
    case StatusCode::kPermissionDenied:
      return {403, kInvalid, "forbidden", "permission_error", 403};
    case StatusCode::kNotFound: return {404, kInvalid, "not_found", "not_found_error", 404};
    case StatusCode::kResourceExhausted:
      return {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", 429};
    case StatusCode::kUnavailable:
      return {503, "server_error", "unavailable", "overloaded_error", 529};
    case StatusCode::kDeadlineExceeded:
      return {504, "server_error", "deadline_exceeded", "timeout_error", 504};
    default: return {500, "server_error", "internal_error", "api_error", 500};
  }
}

std::string retry_after(const Status& status) {
  const auto seconds = status.GetPayload("retry_after");
  return seconds ? std::string(*seconds) : "1";
}

// {"type":"error","error":{"type","message"},"request_id"}.
std::string anthropic_error_body(const recipe::ReplyError& error, std::string_view request_id) {
  Json body = {{"type", "error"}};
  body["error"] = {{"type", std::string(error.type)}, {"message", std::string(error.message)}};
  body["request_id"] = request_id.empty() ? Json() : Json(std::string(request_id));
  return write_json(body);
}

}  // namespace

ErrorForm error_form(const Status& status, Dialect dialect) {
  const Row row = row_of(status.code());
  const std::string reason = reason_of(status);
  ErrorForm form;
  const bool anthropic = dialect == Dialect::kMessages;
  form.status = anthropic ? row.anthropic_status : row.status;
  form.type = anthropic ? row.anthropic_type : row.type;
  form.message = std::string(message_of(status));
  form.param = field_of(status);
  form.code = reason.empty() ? std::string(row.code) : reason;
  return form;
}

net::HttpResponse error_response(const Status& status, Dialect dialect,
                                 std::string_view request_id) {
  const ErrorForm form = error_form(status, dialect);
  net::HttpResponse response;
  response.status = form.status;
  response.headers = {{"content-type", "application/json"}};
  if (form.status == 401) response.headers.emplace_back("www-authenticate", "Bearer");
  if (form.status == 429 || form.status == 503 || form.status == 529) {
    response.headers.emplace_back("retry-after", retry_after(status));
  }
  response.body = dialect == Dialect::kMessages
                      ? anthropic_error_body(form.words(), request_id)
                      : recipe::openai_error_body(form.words());
  return response;
}

Status with_retry_after(Status status, int64_t seconds) {
  status.SetPayload("retry_after", absl::Cord(std::to_string(seconds)));
  return status;
}

}  // namespace lineshaft::api
