#include "api/access.h"

#include <algorithm>
#include <cctype>

#include "net/address.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

std::string bearer_token(const net::HttpRequest& request) {
  const std::string_view value = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(value[i])) != kScheme[i]) return {};
  }
  const size_t begin = value.find_first_not_of(' ', kScheme.size());
  return begin == std::string_view::npos ? std::string() : std::string(value.substr(begin));
}

}  // namespace

bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
}

Status check_host(const net::HttpRequest& request, bool loopback,
                  const std::vector<std::string>& more_hosts) {
  const bool given = std::any_of(request.headers.begin(), request.headers.end(),
                                 [](const auto& header) { return header.first == "host"; });
  if (!given && request.version_minor == 0) return ok_status();
  if (!given) return invalid_argument("the Host header is missing");
  if (!loopback) return ok_status();
  const std::string host = net::host_part(request.header("host"));
  if (net::is_loopback_host(host) ||
      std::find(more_hosts.begin(), more_hosts.end(), host) != more_hosts.end()) {
    return ok_status();
  }
  return permission_denied("Host '{}' is not served on loopback", recipe::shown(host));
}

Status check_content_type(const net::HttpRequest& request) {
  std::string type(request.header("content-type"));
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (type == "application/json" || type.ends_with("+json") || type == "text/json") {
    return ok_status();
  }
  if (type.empty() && request.header("origin").empty()) return ok_status();
  return invalid_argument("content-type '{}' is not served: send application/json",
                          recipe::shown(type));
}

StatusOr<std::shared_ptr<KeyUse>> check_key(const net::HttpRequest& request, const KeyRing& keys) {
  if (keys.empty()) return std::shared_ptr<KeyUse>();
  std::string token = bearer_token(request);
  if (token.empty()) token = std::string(request.header("x-api-key"));
  if (token.empty()) {
    return unauthenticated(
        "no API key was given: send 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
  }
  auto key = keys.find(token);
  if (key == nullptr) return unauthenticated("the API key is not known here");
  return key;
}

}  // namespace lineshaft::api
