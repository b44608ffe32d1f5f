// HttpRequest, HttpResponse, StreamHead: HTTP messages as values. No sockets, no parsing.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lineshaft::net {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// One request, received in full.
struct HttpRequest {
  std::string method;   // as sent: "POST"
  std::string path;     // of the target, without scheme, authority and query; not decoded
  std::string query;    // after '?', without it
  int version_minor = 1;  // of HTTP/1.x
  HttpHeaders headers;  // names in lower case, in order of arrival
  std::string body;
  std::string peer;     // "127.0.0.1:40312"

  // The first value of the header with this lower-case name; empty when there is none.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
};

// A whole reply. The server adds content-length, date and connection.
struct HttpResponse {
  int status = 200;
  HttpHeaders headers;
  std::string body;
};

// The head of a reply whose body follows bit by bit.
struct StreamHead {
  int status = 200;
  HttpHeaders headers;
  // Sent whenever nothing else was for heartbeat_interval; empty: silence is fine.
  std::string heartbeat;
};

// "Not Found" for 404.
std::string_view status_phrase(int status);

}  // namespace lineshaft::net
