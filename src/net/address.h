// Addresses as people write them: "127.0.0.1:8080", "[::1]:0", "localhost".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lineshaft::net {

// True for localhost, 127.0.0.0/8 and ::1 (with or without brackets): reachable from this machine
// only. Resolves no names.
bool is_loopback_host(std::string_view host);

// The host of a Host header or address, without port and brackets, in lower case:
// "[::1]:80" -> "::1".
std::string host_part(std::string_view authority);

// "host:port", with brackets around IPv6.
std::string join_address(std::string_view host, uint16_t port);

}  // namespace lineshaft::net
