// HttpServer: HTTP/1.1 on one reactor thread of its own, with limits on everything a client may
// hold: header and body bytes, connections, the time to send a request, the bytes that wait for a
// slow reader. Knows no route and no meaning of a request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "net/http_types.h"

namespace lineshaft::net {

struct HttpConfig {
  std::string host = "127.0.0.1";  // a literal address or a name that resolves
  uint16_t port = 8080;            // 0: the system picks one
  uint32_t header_bytes_max = 32 << 10;
  uint64_t body_bytes_max = uint64_t{32} << 20;
  uint64_t bodies_bytes_max = uint64_t{512} << 20;  // of all bodies on their way in; beyond it 503
  int connections_max = 1024;      // beyond it a connection gets 503 and is closed
  Duration receive_timeout = Duration::seconds(30);  // first to last byte of a request, then 408
  Duration idle_timeout = Duration::seconds(75);     // between requests of one connection
  Duration write_timeout = Duration::seconds(60);    // no byte taken by the client: dropped
  Duration heartbeat_interval = Duration::seconds(4);
  size_t stream_buffer_bytes_max = size_t{1} << 20;  // of one stream, waiting for its reader
  std::string tls_cert_file;       // PEM chain; with tls_key_file: HTTPS only
  std::string tls_key_file;

  // kInvalidArgument names the field.
  Status validate() const;
};

class Connection;

// The way to answer one request: either send(), or begin_stream() .. write() .. end(). Every
// function may be called from any thread, in that order; what comes after the client is gone is
// dropped. A Responder that goes away without an answer gives the client a 500, or, in the middle
// of a stream, a closed connection.
class Responder {
 public:
  Responder(std::weak_ptr<Connection> connection, uint64_t serial);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  void send(HttpResponse response);
  void begin_stream(StreamHead head);
  void write(std::string bytes);
  void end();
  // `gone` runs once on the reactor thread if the client leaves, stops reading or is dropped
  // before the reply is complete; at once if that has happened already. Call on the reactor thread,
  // where `gone` must be safe to run.
  void on_disconnect(std::function<void(std::string_view reason)> gone);

 private:
  void run(std::function<void(Connection&)> action);

  std::weak_ptr<Connection> connection_;
  const uint64_t serial_;  // of the request on its connection
  bool answered_ = false;
};

// Runs on the reactor thread; must not block.
using HttpHandler = std::function<void(HttpRequest&&, std::shared_ptr<Responder>)>;

class HttpServer {
 public:
  HttpServer(HttpConfig config, HttpHandler handler);
  ~HttpServer();  // stops
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Whether start() with these settings would go well now: bounds, TLS files, a free address. Takes
  // no connection. Errors as start()'s.
  static Status check(const HttpConfig& config);

  // Binds, listens and starts the reactor thread. Returns the address that clients use:
  // "127.0.0.1:8080". kUnavailable: the address can't be bound (in use, not ours).
  StatusOr<std::string> start();

  // From now on every reply asks its connection to close; running replies end whole. Any thread.
  void begin_drain();

  // Stops listening, gives running replies `grace` to reach their clients, closes all sockets, ends
  // the reactor thread and joins it; idempotent. Not from the reactor.
  void stop(Duration grace = {});

  // Runs `task` on the reactor thread, soon or after `delay`. Any thread. Dropped after stop().
  void post(std::function<void()> task);
  void call_after(Duration delay, std::function<void()> task);

  // post() as a value that may outlive the server.
  std::function<void(std::function<void()>)> poster();

  // Open connections; any thread.
  int connection_count() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lineshaft::net
