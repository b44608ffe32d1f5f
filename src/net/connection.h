// Connection: one client's socket: receives requests, one at a time, and sends their replies.
// Internal to net; lives on the reactor thread only.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/byte_stream.h"
#include "net/http_server.h"

namespace lineshaft::net {

// What connections share; owned by the server, outlives them.
struct ConnectionHost {
  boost::asio::io_context& io;
  const HttpConfig& config;
  const HttpHandler& handler;
  const SystemClock& clock;
  bool draining = false;
  uint64_t body_bytes = 0;                // of all requests that are being received
  std::function<void(Connection&)> forget;  // the connection is closed
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHost& host, std::unique_ptr<ByteStream> stream, std::string peer);

  void start();
  // Answers without reading a request (the server is full) and closes.
  void reject(int status, std::string_view sentence);
  // Looks at the deadlines and the heartbeat; called every tick.
  void sweep(Instant now);
  // A reply is due or not yet sent in full.
  bool busy() const;
  // Closes at once; a waiting handler is told `reason`.
  void close(std::string_view reason);

  // The Responder's side; a call for another serial than the current request's is dropped.
  void send(uint64_t serial, HttpResponse response);
  void begin_stream(uint64_t serial, StreamHead head);
  void write(uint64_t serial, std::string_view bytes);
  void end(uint64_t serial);
  // No answer will come: a 500, or an end in the middle of a stream that no client takes for whole.
  void give_up(uint64_t serial);
  void on_disconnect(uint64_t serial, std::function<void(std::string_view)> gone);
  boost::asio::io_context& io() { return host_.io; }

 private:
  enum class State : uint8_t {
    kReceiving,   // a request is on its way (or its first byte is still due)
    kIdle,        // between requests
    kHandling,    // the handler has the request; reading only watches for the client
    kStreaming,   // a reply's head is sent, its body goes on
    kFlushing,    // the reply is complete; close after its last byte
    kLingering,   // all is sent; waits for the client to take it and close
    kClosed,
  };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read_more();
  void on_read(boost::system::error_code error, size_t count);
  void feed();
  void new_parser();
  // Keeps count of this connection's share of host_.body_bytes.
  void count_body(uint64_t bytes);
  bool check_head();
  void refuse(boost::system::error_code error);
  void dispatch();
  void reply_error(int status, std::string_view sentence);
  void append_head(int status, const HttpHeaders& headers, std::string_view framing);
  void append_out(std::string_view bytes);
  void flush();
  void on_write(boost::system::error_code error, size_t count);
  void reply_done();
  void linger();

  ConnectionHost& host_;
  std::unique_ptr<ByteStream> stream_;
  const std::string peer_;
  State state_ = State::kReceiving;
  Instant deadline_ = Instant::never();   // of the state; see sweep()
  Instant wrote_ = {};                    // when bytes last left or entered an empty buffer
  std::array<char, 16 << 10> chunk_;      // where the socket reads to
  bool reading_ = false;
  std::string input_;                     // received, not yet parsed
  std::optional<Parser> parser_;
  bool head_seen_ = false;
  uint64_t body_bytes_ = 0;               // of the request on its way
  uint64_t serial_ = 0;                   // of the current request
  bool keep_alive_ = false;
  bool head_only_ = false;                // the request was HEAD
  bool chunked_ = false;
  int version_minor_ = 1;
  std::string heartbeat_;
  std::string out_;                       // waits to be sent
  std::string sending_;                   // handed to the socket
  size_t sent_ = 0;                       // of sending_
  bool writing_ = false;
  std::function<void(std::string_view)> gone_;
};

}  // namespace lineshaft::net
