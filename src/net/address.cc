#include "net/address.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>

namespace lineshaft::net {

bool is_loopback_host(std::string_view host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") return true;
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(std::string(host), error);
  return !error && address.is_loopback();
}

std::string host_part(std::string_view authority) {
  std::string_view host = authority;
  if (!host.empty() && host.front() == '[') {
    const size_t close = host.find(']');
    host = close == std::string_view::npos ? std::string_view{} : host.substr(1, close - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  std::string out(host);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string join_address(std::string_view host, uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos && host.front() != '[';
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace lineshaft::net
