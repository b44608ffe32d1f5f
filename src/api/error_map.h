// Status -> HTTP: the only such table. Everything that fails in the API goes through here.
#pragma once

#include <string>
#include <string_view>

#include "api/dialect.h"
#include "base/status.h"
#include "net/http_types.h"
#include "recipe/dialect/reply_writer.h"

namespace lineshaft::api {

// How a failure looks in a dialect.
struct ErrorForm {
  int status = 500;
  std::string message;
  std::string_view type;  // "invalid_request_error", "server_error", "overloaded_error", ...
  std::string param;      // the field; empty: none
  std::string code;       // "context_length_exceeded"; empty: null

  // Views of this.
  recipe::ReplyError words() const { return {message, type, param, code}; }
};

ErrorForm error_form(const Status& status, Dialect dialect = Dialect::kChat);

// The whole reply, with Retry-After for what may work later. `request_id` is part of Anthropic's
// bodies.
net::HttpResponse error_response(const Status& status, Dialect dialect = Dialect::kChat,
                                 std::string_view request_id = "");

// The seconds that a client should wait, carried by the Status to the Retry-After header.
Status with_retry_after(Status status, int64_t seconds);

}  // namespace lineshaft::api
