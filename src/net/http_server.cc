#include "net/http_server.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "net/address.h"
#include "net/connection.h"

namespace lineshaft::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string_view status_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Overloaded";  // Anthropic's
    default: return "Status";
  }
}

Status HttpConfig::validate() const {
  if (host.empty()) return invalid_argument("host is empty");
  if (header_bytes_max < 256) return invalid_argument("header_bytes_max is below 256");
  if (body_bytes_max < 1) return invalid_argument("body_bytes_max is below 1");
  if (bodies_bytes_max < body_bytes_max) {
    return invalid_argument("bodies_bytes_max is below body_bytes_max");
  }
  if (connections_max < 1) return invalid_argument("connections_max is below 1");
  if (stream_buffer_bytes_max < 4096) {
    return invalid_argument("stream_buffer_bytes_max is below 4096");
  }
  for (const Duration d : {receive_timeout, idle_timeout, write_timeout, heartbeat_interval}) {
    if (d < Duration::milliseconds(1)) return invalid_argument("a timeout is below 1 ms");
  }
  if (tls_cert_file.empty() != tls_key_file.empty()) {
    return invalid_argument("tls_cert_file and tls_key_file go together: one is missing");
  }
  return ok_status();
}

Responder::Responder(std::weak_ptr<Connection> connection, uint64_t serial)
    : connection_(std::move(connection)), serial_(serial) {}

Responder::~Responder() {
  if (!answered_) run([serial = serial_](Connection& connection) { connection.give_up(serial); });
}

void Responder::run(std::function<void(Connection&)> action) {
  const auto connection = connection_.lock();
  if (connection == nullptr) return;
  asio::dispatch(connection->io(),
                 [connection, action = std::move(action)] { action(*connection); });
}

void Responder::send(HttpResponse response) {
  answered_ = true;
  run([serial = serial_, response = std::move(response)](Connection& connection) mutable {
    connection.send(serial, std::move(response));
  });
}

void Responder::begin_stream(StreamHead head) {
  run([serial = serial_, head = std::move(head)](Connection& connection) mutable {
    connection.begin_stream(serial, std::move(head));
  });
}

void Responder::write(std::string bytes) {
  run([serial = serial_, bytes = std::move(bytes)](Connection& connection) {
    connection.write(serial, bytes);
  });
}

void Responder::end() {
  answered_ = true;
  run([serial = serial_](Connection& connection) { connection.end(serial); });
}

void Responder::on_disconnect(std::function<void(std::string_view)> gone) {
  const auto connection = connection_.lock();
  if (connection == nullptr) return gone("the client closed the connection");
  connection->on_disconnect(serial_, std::move(gone));
}

struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  Impl(HttpConfig c, HttpHandler h)
      : config(std::move(c)), handler(std::move(h)), acceptor(io), ticker(io), retry(io) {}

  Status bind();
  Status listen();
  Status load_tls();
  void accept();
  void on_accept(error_code error, tcp::socket socket);
  void tick();
  void stop_soon(Instant deadline);

  const HttpConfig config;
  const HttpHandler handler;
  SystemClock clock;
  std::optional<asio::ssl::context> tls;
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor;
  asio::steady_timer ticker;
  asio::steady_timer retry;
  ConnectionHost host{io, config, handler, clock, false, 0, {}};
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::atomic<int> connection_count{0};
  std::thread thread;
};

Status HttpServer::Impl::load_tls() {
  if (config.tls_cert_file.empty()) return ok_status();
  error_code error;
  tls.emplace(asio::ssl::context::tls_server);
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                   asio::ssl::context::no_tlsv1_1);
  if (tls->use_certificate_chain_file(config.tls_cert_file, error)) {
    return invalid_argument("tls_cert_file {}: {}", config.tls_cert_file, error.message());
  }
  if (tls->use_private_key_file(config.tls_key_file, asio::ssl::context::pem, error)) {
    return invalid_argument("tls_key_file {}: {}", config.tls_key_file, error.message());
  }
  return ok_status();
}

Status HttpServer::Impl::bind() {
  std::string name = config.host;
  if (name.size() > 2 && name.front() == '[') name = name.substr(1, name.size() - 2);
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(name, std::to_string(config.port),
                                      tcp::resolver::passive, error);
  if (error || found.empty()) {
    return unavailable("host {}: {}", config.host, error.message());
  }
  // A name with several addresses ("localhost") is served on its IPv4 address when it has one.
  auto chosen = found.begin();
  for (auto it = found.begin(); it != found.end(); ++it) {
    if (it->endpoint().address().is_v4()) {
      chosen = it;
      break;
    }
  }
  const tcp::endpoint endpoint = chosen->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (error) {
    return unavailable("{} can't be bound: {}", join_address(config.host, config.port),
                       error.message());
  }
  return ok_status();
}

Status HttpServer::Impl::listen() {
  error_code error;
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return unavailable("{} can't be bound: {}", join_address(config.host, config.port),
                       error.message());
  }
  return ok_status();
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    on_accept(error, std::move(socket));
  });
}

void HttpServer::Impl::on_accept(error_code error, tcp::socket socket) {
  if (error) {
    // Out of descriptors, mostly: the next try would fail at once, so wait for one to come free.
    log_event(Severity::kWarning, "accept_failed", {{"reason", error.message()}});
    retry.expires_after(std::chrono::milliseconds(100));
    retry.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
    return;
  }
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto peer = socket.remote_endpoint(ignored);
  const auto open = static_cast<int>(connections.size());
  // Up to as many again are told that the server is full; beyond that there is no time to talk.
  if (open < 2 * config.connections_max) {
    const bool full = open >= config.connections_max;
    auto stream = make_byte_stream(std::move(socket), tls && !full ? &*tls : nullptr);
    auto connection = std::make_shared<Connection>(
        host, std::move(stream), join_address(peer.address().to_string(), peer.port()));
    connections.insert(connection);
    connection_count.store(static_cast<int>(connections.size()));
    if (full) {
      connection->reject(503, "too many connections are open; try again soon");
    } else {
      connection->start();
    }
  }
  accept();
}

// Looks at every connection's deadlines a few times within the shortest of them.
void HttpServer::Impl::tick() {
  int64_t shortest = Duration::seconds(4).ns;
  for (const Duration d : {config.receive_timeout, config.idle_timeout, config.write_timeout,
                           config.heartbeat_interval}) {
    shortest = std::min(shortest, d.ns);
  }
  const int64_t interval = std::max(shortest / 4, Duration::milliseconds(5).ns);
  ticker.expires_after(std::chrono::nanoseconds(interval));
  ticker.async_wait([this](error_code stopped) {
    if (stopped) return;
    const Instant now = clock.now();
    const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
    for (const auto& connection : all) connection->sweep(now);
    tick();
  });
}

// Waits for connections that still owe their client something, then ends the reactor.
void HttpServer::Impl::stop_soon(Instant deadline) {
  const std::vector<std::shared_ptr<Connection>> all(connections.begin(), connections.end());
  const bool busy = std::any_of(all.begin(), all.end(), [](const auto& c) { return c->busy(); });
  if (busy && clock.now() < deadline) {
    retry.expires_after(std::chrono::milliseconds(5));
    retry.async_wait([this, deadline](error_code) { stop_soon(deadline); });
    return;
  }
  ticker.cancel();
  for (const auto& connection : all) connection->close("the server stops");
  // After the handlers that the closing has posted.
  asio::post(io, [this] { io.stop(); });
}

HttpServer::HttpServer(HttpConfig config, HttpHandler handler)
    : impl_(std::make_shared<Impl>(std::move(config), std::move(handler))) {
  impl_->host.forget = [impl = impl_.get()](Connection& connection) {
    impl->connections.erase(connection.shared_from_this());
    impl->connection_count.store(static_cast<int>(impl->connections.size()));
  };
}

HttpServer::~HttpServer() { stop(); }

Status HttpServer::check(const HttpConfig& config) {
  LS_RETURN_IF_ERROR(config.validate());
  Impl probe(config, nullptr);
  LS_RETURN_IF_ERROR(probe.load_tls());
  return probe.bind();
}

StatusOr<std::string> HttpServer::start() {
  LS_RETURN_IF_ERROR(impl_->config.validate());
  LS_RETURN_IF_ERROR(impl_->load_tls());
  LS_RETURN_IF_ERROR(impl_->bind());
  LS_RETURN_IF_ERROR(impl_->listen());
  error_code error;
  const auto local = impl_->acceptor.local_endpoint(error);
  if (error) return unavailable("the socket has no address: {}", error.message());
  impl_->accept();
  impl_->tick();
  impl_->thread = std::thread([impl = impl_] {
    prctl(PR_SET_NAME, "ls-http", 0, 0, 0);
    impl->io.run();
  });
  return join_address(local.address().to_string(), local.port());
}

void HttpServer::begin_drain() {
  post([impl = impl_.get()] { impl->host.draining = true; });
}

void HttpServer::stop(Duration grace) {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->io, [impl = impl_.get(), grace] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->host.draining = true;
    impl->stop_soon(impl->clock.now() + grace);
  });
  impl_->thread.join();
}

std::function<void(std::function<void()>)> HttpServer::poster() {
  return [impl = impl_](std::function<void()> task) { asio::post(impl->io, std::move(task)); };
}

void HttpServer::post(std::function<void()> task) { asio::post(impl_->io, std::move(task)); }

void HttpServer::call_after(Duration delay, std::function<void()> task) {
  asio::post(impl_->io, [impl = impl_.get(), delay, task = std::move(task)]() mutable {
    auto timer = std::make_shared<asio::steady_timer>(impl->io);
    timer->expires_after(std::chrono::nanoseconds(delay.ns));
    timer->async_wait([timer, task = std::move(task)](error_code stopped) {
      if (!stopped) task();
    });
  });
}

int HttpServer::connection_count() const { return impl_->connection_count.load(); }

}  // namespace lineshaft::net
