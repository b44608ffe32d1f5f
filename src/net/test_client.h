// TestClient: a blocking socket that speaks bytes, for tests of servers. Not for production code:
// it trusts what it reads.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

namespace lineshaft::net {

struct TestReply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names as sent
  std::string body;                            // chunks joined
  bool complete = false;                       // the reply ended as its framing says
};

class TestClient {
 public:
  // `address`: "127.0.0.1:port". receive_buffer_bytes > 0 shrinks the socket's buffer.
  explicit TestClient(const std::string& address, int receive_buffer_bytes = 0) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    const size_t colon = address.rfind(':');
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
    }
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Reads once, for at most timeout_ms. False: nothing came, or the other side closed (eof()).
  bool read_some(int timeout_ms = 10'000) {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, timeout_ms) <= 0) return false;
    char bytes[16 << 10];
    const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) {
      eof_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
  }
  bool eof() const { return eof_; }
  std::string& buffer() { return buffer_; }

  // Reads until `mark` is in the buffer; false when it does not come.
  bool read_until(std::string_view mark, int timeout_ms = 10'000) {
    while (buffer_.find(mark) == std::string::npos) {
      if (!read_some(timeout_ms)) return false;
    }
    return true;
  }

  // One reply off the front of the stream. `head_only`: the request was HEAD.
  TestReply read_reply(bool head_only = false, int timeout_ms = 10'000) {
    TestReply reply;
    if (!read_until("\r\n\r\n", timeout_ms)) return reply;
    const size_t end = buffer_.find("\r\n\r\n");
    parse_head(buffer_.substr(0, end), reply);
    buffer_.erase(0, end + 4);
    if (reply.status == 100) return read_reply(head_only, timeout_ms);
    if (head_only || reply.status == 204) {
      reply.complete = true;
    } else if (reply.headers.count("transfer-encoding") != 0) {
      read_chunks(reply, timeout_ms);
    } else if (reply.headers.count("content-length") != 0) {
      const size_t length = std::strtoul(reply.headers["content-length"].c_str(), nullptr, 10);
      while (buffer_.size() < length && read_some(timeout_ms)) {
      }
      reply.complete = buffer_.size() >= length;
      reply.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    } else {
      while (read_some(timeout_ms)) {
      }
      reply.complete = eof_;
      reply.body.swap(buffer_);
    }
    return reply;
  }

 private:
  static void parse_head(const std::string& head, TestReply& reply) {
    if (head.size() > 12) reply.status = std::atoi(head.c_str() + 9);
    size_t at = head.find("\r\n");
    while (at != std::string::npos) {
      const size_t next = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, next - at - 2);
      const size_t colon = line.find(": ");
      if (colon != std::string::npos) reply.headers[line.substr(0, colon)] = line.substr(colon + 2);
      at = next;
    }
  }

  void read_chunks(TestReply& reply, int timeout_ms) {
    for (;;) {
      size_t line = buffer_.find("\r\n");
      while (line == std::string::npos) {
        if (!read_some(timeout_ms)) return;
        line = buffer_.find("\r\n");
      }
      const size_t length = std::strtoul(buffer_.c_str(), nullptr, 16);
      while (buffer_.size() < line + 2 + length + 2) {
        if (!read_some(timeout_ms)) return;
      }
      reply.body += buffer_.substr(line + 2, length);
      buffer_.erase(0, line + 2 + length + 2);
      if (length == 0) {
        reply.complete = true;
        return;
      }
    }
  }

  int fd_ = -1;
  bool connected_ = false;
  bool eof_ = false;
  std::string buffer_;
};

}  // namespace lineshaft::net
