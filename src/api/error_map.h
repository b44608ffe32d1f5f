// Status -> HTTP: the only such table. Everything that fails in the API goes through here.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "net/http_types.h"

namespace lineshaft::api {

// How a failure looks in OpenAI's form.
struct ErrorForm {
  int status = 500;
  std::string_view type;   // "invalid_request_error", "server_error", ...
  std::string code;        // "context_length_exceeded"; empty: null
};

ErrorForm error_form(const Status& status);

// The body alone: also what an error event in a stream carries.
std::string error_body(const Status& status);

// The whole reply, with Retry-After for what may work later.
net::HttpResponse error_response(const Status& status);

// The seconds that a client should wait, carried by the Status to the Retry-After header.
Status with_retry_after(Status status, int64_t seconds);

}  // namespace lineshaft::api
