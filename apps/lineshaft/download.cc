#include "lineshaft/download.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "lineshaft/interrupt.h"
#include "lineshaft/version.h"
#include "net/address.h"

namespace lineshaft::app {
namespace {

constexpr long kRedirectsMax = 5;
constexpr long kConnectSeconds = 15;

struct Transfer {
  const DownloadRequest* request = nullptr;
  DownloadReply* reply = nullptr;
  CURL* curl = nullptr;
  long code = 0;               // of the answer whose headers are being read
  int64_t range_start = -1;    // Content-Range of that answer
  int64_t range_total = -1;
  int64_t written = 0;
  bool body_begun = false;
  std::optional<bool> first_peer_private;
  Status failure;              // why a callback ended the transfer
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "bytes 10-99/100" → start 10, total 100.
void read_content_range(std::string_view value, Transfer* t) {
  if (!value.starts_with("bytes ")) return;
  value.remove_prefix(6);
  const size_t dash = value.find('-');
  const size_t slash = value.find('/');
  if (slash == std::string_view::npos) return;
  if (dash != std::string_view::npos && dash < slash) {
    t->range_start = parse_int(value.substr(0, dash)).value_or(-1);
  }
  t->range_total = parse_int(value.substr(slash + 1)).value_or(-1);
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isxdigit(c) != 0;
         });
}

void read_header(std::string_view line, Transfer* t) {
  line = trim(line);
  if (line.starts_with("HTTP/")) {  // a further answer: after a redirect, or after 100
    t->code = 0;
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      t->code = parse_int(line.substr(space + 1, 3)).value_or(0);
    }
    t->range_start = t->range_total = -1;
    t->reply->validator.clear();
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = lower(line.substr(0, colon));
  std::string_view value = trim(line.substr(colon + 1));
  if (name == "content-range") {
    read_content_range(value, t);
  } else if (name == "etag") {
    if (!value.starts_with("W/")) t->reply->validator = std::string(value);
  } else if (name == "last-modified") {
    if (t->reply->validator.empty()) t->reply->validator = std::string(value);
  } else if (name == "x-linked-etag") {  // stands in the first answer, before the redirect
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (is_sha256(value)) t->reply->linked_sha256 = lower(value);
  }
}

size_t on_header(char* data, size_t size, size_t count, void* user) {
  read_header({data, size * count}, static_cast<Transfer*>(user));
  return size * count;
}

// Settles what the body means: the rest of the file or all of it.
Status begin_body(Transfer* t) {
  const int64_t asked = t->request->offset;
  curl_off_t length = -1;
  curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (t->code == 206) {
    if (t->range_start != asked) {
      return data_loss("the server sent bytes from {} where {} was asked for", t->range_start,
                       asked);
    }
    t->reply->start_offset = asked;
    t->reply->total_bytes = t->range_total;
    if (t->range_total < 0 && length >= 0) t->reply->total_bytes = asked + length;
  } else {
    t->reply->start_offset = 0;
    t->reply->total_bytes = length;
    if (ftruncate(t->request->fd, 0) != 0) {
      return unavailable("cannot empty the partial file: {}", std::strerror(errno));
    }
  }
  LS_RETURN_IF_ERROR(t->request->on_size(t->reply->total_bytes));
  if (lseek(t->request->fd, t->reply->start_offset, SEEK_SET) < 0) {
    return unavailable("cannot write the partial file: {}", std::strerror(errno));
  }
  return ok_status();
}

Status write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return resource_exhausted("writing the file failed: {}", std::strerror(errno));
    data += n;
    size -= static_cast<size_t>(n);
  }
  return ok_status();
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto* t = static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (t->code != 200 && t->code != 206) return bytes;  // the text of an error page
  if (!t->body_begun) {
    t->failure = begin_body(t);
    t->body_begun = true;
  }
  if (t->failure.ok()) t->failure = write_all(t->request->fd, data, bytes);
  if (!t->failure.ok()) return 0;
  t->written += static_cast<int64_t>(bytes);
  return bytes;
}

int on_transfer_info(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto* t = static_cast<Transfer*>(user);
  if (interrupts() > 0) {
    t->failure = make_status(StatusCode::kCancelled, "interrupted");
    return 1;
  }
  if (t->body_begun && t->request->on_progress) {
    t->request->on_progress(t->reply->start_offset + t->written, t->reply->total_bytes);
  }
  return 0;
}

bool is_private(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const uint32_t ip =
        ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    return (ip >> 24) == 127 || (ip >> 24) == 10 || (ip >> 24) == 0 || (ip >> 20) == 0xac1 ||
           (ip >> 16) == 0xc0a8 || (ip >> 16) == 0xa9fe;
  }
  if (address->sa_family == AF_INET6) {
    const auto& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&ip)) {
      sockaddr_in v4{};
      v4.sin_family = AF_INET;
      std::memcpy(&v4.sin_addr, ip.s6_addr + 12, 4);
      return is_private(reinterpret_cast<const sockaddr*>(&v4));
    }
    return IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_LINKLOCAL(&ip) ||
           (ip.s6_addr[0] & 0xfe) == 0xfc;
  }
  return true;
}

// A public server may not send us on to a private address (P111).
curl_socket_t on_open_socket(void* user, curlsocktype, curl_sockaddr* address) {
  auto* t = static_cast<Transfer*>(user);
  const bool peer_private = is_private(&address->addr);
  if (!t->first_peer_private) t->first_peer_private = peer_private;
  if (peer_private && !*t->first_peer_private) {
    t->failure = invalid_argument("the server redirects to a private address; refused");
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

Status status_of_code(long code) {
  if (code == 404 || code == 410) return not_found("the server has no such file (HTTP {})", code);
  if (code == 401 || code == 403) {
    return permission_denied("the server refuses access (HTTP {}); is the repository gated?", code);
  }
  if (code == 429 || code == 408 || code >= 500) {
    return unavailable("the server answered HTTP {}", code);
  }
  if (code == 416) return out_of_range("the server has no bytes beyond the partial file's");
  return invalid_argument("the server answered HTTP {}", code);
}

Status status_of_curl(CURLcode result, const char* detail, const Transfer& t) {
  if (!t.failure.ok()) return t.failure;
  const std::string text = *detail != '\0' ? detail : curl_easy_strerror(result);
  switch (result) {
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION: return invalid_argument("{}", text);
    case CURLE_OPERATION_TIMEDOUT:
      return unavailable("no data for {} s ({})", t.request->stall_seconds, text);
    default: return unavailable("{}", text);
  }
}

// Only https, but http where the host that the user named is this machine.
StatusOr<const char*> allowed_protocols(const std::string& url) {
  std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(curl_url(), curl_url_cleanup);
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) {
    return invalid_argument("'{}' is no URL", url);
  }
  char* part = nullptr;
  const auto get = [&](CURLUPart which) {
    std::string out;
    if (curl_url_get(parsed.get(), which, &part, 0) == CURLUE_OK) out = part;
    curl_free(part);
    part = nullptr;
    return out;
  };
  const std::string scheme = get(CURLUPART_SCHEME);
  const bool loopback = net::is_loopback_host(get(CURLUPART_HOST));
  if (scheme != "https" && !(scheme == "http" && loopback)) {
    return invalid_argument("'{}': only https is fetched (http from this machine itself)", url);
  }
  return loopback ? "http,https" : "https";
}

void set_options(CURL* curl, const DownloadRequest& request, const char* protocols, Transfer* t) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, protocols);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kRedirectsMax);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_seconds));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, ("lineshaft/" + version()).c_str());
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_transfer_info);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
  curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, t);
}

}  // namespace

Status download(const DownloadRequest& request, DownloadReply* reply) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) return unavailable("libcurl does not start");
  LS_ASSIGN_OR_RETURN(const char* protocols, allowed_protocols(request.url));
  std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) return unavailable("libcurl does not start");
  Transfer t;
  t.request = &request;
  t.reply = reply;
  t.curl = curl.get();
  set_options(curl.get(), request, protocols, &t);
  char detail[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, detail);
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, curl_slist_free_all);
  if (request.offset > 0) {
    headers.reset(curl_slist_append(
        headers.release(), fmt::format("Range: bytes={}-", request.offset).c_str()));
    headers.reset(
        curl_slist_append(headers.release(), ("If-Range: " + request.validator).c_str()));
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  }
  const CURLcode result = curl_easy_perform(curl.get());
  if (result != CURLE_OK) return status_of_curl(result, detail, t);
  if (t.code == 416) reply->total_bytes = t.range_total;
  if (t.code != 200 && t.code != 206) return status_of_code(t.code);
  if (!t.body_begun) return begin_body(&t);  // an empty file
  return ok_status();
}

}  // namespace lineshaft::app
