// Server-sent events (WHATWG HTML, section 9.2): the bytes of events and comments.
#pragma once

#include <string>
#include <string_view>

namespace lineshaft::net {

// A comment line: legal at any time, skipped by all clients.
constexpr std::string_view kSseHeartbeat = ": keep-alive\n\n";
// OpenAI's end of a stream.
constexpr std::string_view kSseDone = "data: [DONE]\n\n";

// Appends one event without a name. `data` is one line (JSON as base/json.h writes it).
inline void append_sse(std::string& out, std::string_view data) {
  out += "data: ";
  out += data;
  out += "\n\n";
}

}  // namespace lineshaft::net
