// Server-sent events (WHATWG HTML, section 9.2): the bytes of events and comments.
#pragma once

#include <string>
#include <string_view>

namespace lineshaft::net {

// A comment line: legal at any time, skipped by all clients.
constexpr std::string_view kSseHeartbeat = ": keep-alive\n\n";
// Anthropic's form of the same, an event that its clients skip.
constexpr std::string_view kSsePing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// Appends one event; `name` may be empty. `data` is one line (JSON as base/json.h writes it).
inline void append_sse(std::string& out, std::string_view name, std::string_view data) {
  if (!name.empty()) {
    out += "event: ";
    out += name;
    out += '\n';
  }
  out += "data: ";
  out += data;
  out += "\n\n";
}

}  // namespace lineshaft::net
