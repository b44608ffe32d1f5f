#include "net/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <cctype>
#include <ctime>
#include <utility>

namespace lineshaft::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Bytes of further requests that are taken in while one is being answered. Beyond it the socket is
// not read, so that a client that sends on and on can't fill memory.
constexpr size_t kPipelineBytesMax = 64 << 10;
// How long a closing connection waits for its client to read the last reply.
constexpr Duration kLingerTime = Duration::seconds(2);

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// RFC 9110, 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date() {
  const std::time_t seconds = unix_seconds();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, length};
}

// Target forms of RFC 9112, 3.2: origin, absolute and asterisk.
void split_target(std::string_view target, HttpRequest& request) {
  const size_t scheme = target.find("://");
  if (!target.empty() && target.front() != '/' && scheme != std::string_view::npos) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const size_t question = target.find('?');
  request.path = std::string(target.substr(0, question));
  if (question != std::string_view::npos) request.query = std::string(target.substr(question + 1));
}

// For failures that no handler sees. The sentences are ours and need no escapes.
std::string error_body(std::string_view sentence, std::string_view type) {
  return fmt::format(R"({{"error":{{"message":"{}","type":"{}","param":null,"code":null}}}})",
                     sentence, type);
}

}  // namespace

Connection::Connection(ConnectionHost& host, std::unique_ptr<ByteStream> stream, std::string peer)
    : host_(host), stream_(std::move(stream)), peer_(std::move(peer)) {}

void Connection::start() {
  new_parser();
  deadline_ = host_.clock.now() + host_.config.receive_timeout;
  stream_->handshake([self = shared_from_this()](error_code error) {
    if (error) return self->close("TLS handshake failed");
    self->read_more();
  });
}

void Connection::reject(int status, std::string_view sentence) {
  reply_error(status, sentence);
  read_more();
}

void Connection::new_parser() {
  parser_.emplace();
  parser_->header_limit(host_.config.header_bytes_max);
  parser_->body_limit(host_.config.body_bytes_max);
  parser_->eager(true);
  head_seen_ = false;
  count_body(0);
}

void Connection::count_body(uint64_t bytes) {
  host_.body_bytes += bytes - body_bytes_;
  body_bytes_ = bytes;
}

void Connection::read_more() {
  if (reading_ || state_ == State::kClosed) return;
  if (input_.size() >= kPipelineBytesMax) return;
  reading_ = true;
  stream_->read_some(asio::buffer(chunk_),
                     [self = shared_from_this()](error_code error, size_t count) {
                       self->on_read(error, count);
                     });
}

void Connection::on_read(error_code error, size_t count) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) {
    // A client that closes its sending half while a reply is due counts as gone: nothing tells it
    // from one that has died, and work for the dead is worse.
    if (state_ == State::kFlushing) return;  // the last bytes still go out
    return close("the client closed the connection");
  }
  if (state_ == State::kLingering || state_ == State::kFlushing) return read_more();
  input_.append(chunk_.data(), count);
  feed();
  read_more();
}

void Connection::feed() {
  while (!input_.empty() && (state_ == State::kReceiving || state_ == State::kIdle)) {
    if (state_ == State::kIdle) {
      state_ = State::kReceiving;
      deadline_ = host_.clock.now() + host_.config.receive_timeout;
    }
    error_code error;
    const size_t used = parser_->put(asio::buffer(input_), error);
    input_.erase(0, used);
    if (error == http::error::need_more) error = {};
    if (error) return refuse(error);
    if (parser_->is_header_done() && !head_seen_ && !check_head()) return;
    count_body(parser_->get().body().size());
    if (host_.body_bytes > host_.config.bodies_bytes_max) {
      return reply_error(503, "too many long requests arrive at once; try again soon");
    }
    if (parser_->is_done()) {
      dispatch();
    } else if (used == 0) {
      return;
    }
  }
}

bool Connection::check_head() {
  head_seen_ = true;
  const auto& head = parser_->get();
  if (head.version() < 10 || head.version() > 11) {
    reply_error(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    return false;
  }
  if (http::token_list(head[http::field::expect]).exists("100-continue") && !parser_->is_done()) {
    append_out("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return true;
}

void Connection::refuse(error_code error) {
  if (error == http::error::body_limit) {
    return reply_error(413, fmt::format("the body exceeds the limit of {} bytes",
                                        host_.config.body_bytes_max));
  }
  if (error == http::error::header_limit) {
    return reply_error(431, fmt::format("the headers exceed the limit of {} bytes",
                                        host_.config.header_bytes_max));
  }
  reply_error(400, "this is not an HTTP/1.1 request");
}

void Connection::dispatch() {
  auto message = parser_->release();
  HttpRequest request;
  request.method = std::string(message.method_string());
  split_target({message.target().data(), message.target().size()}, request);
  version_minor_ = message.version() == 10 ? 0 : 1;
  request.version_minor = version_minor_;
  for (const auto& field : message) {
    request.headers.emplace_back(
        lower({field.name_string().data(), field.name_string().size()}),
        std::string(field.value().data(), field.value().size()));
  }
  request.body = std::move(message.body());
  request.peer = peer_;
  keep_alive_ = message.keep_alive() && !host_.draining;
  head_only_ = request.method == "HEAD";
  new_parser();
  state_ = State::kHandling;
  deadline_ = Instant::never();
  ++serial_;
  host_.handler(std::move(request), std::make_shared<Responder>(weak_from_this(), serial_));
}

void Connection::reply_error(int status, std::string_view sentence) {
  keep_alive_ = false;
  new_parser();  // what was received of this request is of no use
  HttpResponse response;
  response.status = status;
  response.headers = {{"content-type", "application/json"}};
  if (status == 503) response.headers.emplace_back("retry-after", "1");
  response.body =
      error_body(sentence, status < 500 ? "invalid_request_error" : "server_error");
  state_ = State::kHandling;
  send(++serial_, std::move(response));
}

void Connection::append_head(int status, const HttpHeaders& headers, std::string_view framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, status_phrase(status));
  for (const auto& [name, value] : headers) {
    head += name;
    head += ": ";
    // A line break in a value would forge a header.
    for (const char c : value) head.push_back(c == '\r' || c == '\n' ? ' ' : c);
    head += "\r\n";
  }
  keep_alive_ = keep_alive_ && !host_.draining;
  head += fmt::format("date: {}\r\n{}connection: {}\r\n\r\n", http_date(), framing,
                      keep_alive_ ? "keep-alive" : "close");
  append_out(head);
}

void Connection::send(uint64_t serial, HttpResponse response) {
  if (serial != serial_ || state_ != State::kHandling) return;
  const bool bodiless = response.status == 204 || response.status == 304;
  append_head(response.status, response.headers,
              bodiless ? "" : fmt::format("content-length: {}\r\n", response.body.size()));
  if (!head_only_ && !bodiless) append_out(response.body);
  reply_done();
}

void Connection::begin_stream(uint64_t serial, StreamHead head) {
  if (serial != serial_ || state_ != State::kHandling) return;
  chunked_ = version_minor_ == 1;
  if (!chunked_) keep_alive_ = false;  // the end of the connection is the end of the body
  state_ = State::kStreaming;
  heartbeat_ = std::move(head.heartbeat);
  append_head(head.status, head.headers, chunked_ ? "transfer-encoding: chunked\r\n" : "");
}

void Connection::write(uint64_t serial, std::string_view bytes) {
  if (serial != serial_ || state_ != State::kStreaming || bytes.empty()) return;
  const size_t waiting = out_.size() + sending_.size() - sent_;
  if (waiting + bytes.size() > host_.config.stream_buffer_bytes_max) {
    return close("the client reads too slowly");
  }
  if (chunked_) append_out(fmt::format("{:x}\r\n", bytes.size()));
  append_out(bytes);
  if (chunked_) append_out("\r\n");
}

void Connection::end(uint64_t serial) {
  if (serial != serial_ || state_ != State::kStreaming) return;
  if (chunked_) append_out("0\r\n\r\n");
  heartbeat_.clear();
  reply_done();
}

void Connection::give_up(uint64_t serial) {
  if (serial != serial_) return;
  if (state_ == State::kStreaming) return close("the reply was given up");
  HttpResponse response{500, {{"content-type", "application/json"}}, {}};
  response.body = error_body("the request was given up", "server_error");
  send(serial, std::move(response));
}

bool Connection::busy() const {
  return state_ == State::kHandling || state_ == State::kStreaming || writing_ || !out_.empty();
}

void Connection::on_disconnect(uint64_t serial, std::function<void(std::string_view)> gone) {
  if (serial != serial_) return;
  if (state_ == State::kClosed) return gone("the client closed the connection");
  gone_ = std::move(gone);
}

void Connection::reply_done() {
  gone_ = nullptr;
  state_ = keep_alive_ ? State::kIdle : State::kFlushing;
  deadline_ = host_.clock.now() + host_.config.idle_timeout;
  if (state_ == State::kFlushing) {
    if (!writing_ && out_.empty()) linger();
    return;
  }
  // A pipelined request may be here already; not from inside the handler that just answered.
  asio::post(host_.io, [self = shared_from_this()] {
    self->feed();
    self->read_more();
  });
}

void Connection::append_out(std::string_view bytes) {
  if (state_ == State::kClosed) return;
  if (out_.empty() && !writing_) wrote_ = host_.clock.now();
  const bool first = out_.empty();
  out_ += bytes;
  // One posted flush carries all that a turn of the reactor appends.
  if (first && !writing_) {
    asio::post(host_.io, [self = shared_from_this()] { self->flush(); });
  }
}

void Connection::flush() {
  if (state_ == State::kClosed || writing_) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    if (out_.empty()) {
      if (state_ == State::kFlushing) linger();
      return;
    }
    std::swap(sending_, out_);
  }
  writing_ = true;
  stream_->write_some(asio::buffer(sending_) + sent_,
                      [self = shared_from_this()](error_code error, size_t count) {
                        self->on_write(error, count);
                      });
}

void Connection::on_write(error_code error, size_t count) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (error) return close("the client closed the connection");
  sent_ += count;
  wrote_ = host_.clock.now();
  flush();
}

void Connection::linger() {
  // Closing with unread bytes in the socket makes the kernel send a reset, which can destroy the
  // reply before the client has read it. So: say that nothing more comes, and wait a little.
  state_ = State::kLingering;
  deadline_ = host_.clock.now() + kLingerTime;
  error_code ignored;
  stream_->socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  input_.clear();
  read_more();
}

void Connection::sweep(Instant now) {
  const bool unsent = writing_ || !out_.empty();
  if (unsent && now - wrote_ > host_.config.write_timeout) {
    return close("the client stopped reading");
  }
  switch (state_) {
    case State::kReceiving:
      if (now >= deadline_) {
        // Before the first byte there is no request to answer.
        if (input_.empty() && serial_ == 0 && !parser_->got_some()) return close("silence");
        reply_error(408, "the request did not arrive in time");
      }
      break;
    case State::kIdle:
      if (now >= deadline_ || (host_.draining && !unsent)) close("idle");
      break;
    case State::kStreaming:
      if (!heartbeat_.empty() && !unsent && now - wrote_ >= host_.config.heartbeat_interval) {
        write(serial_, heartbeat_);
      }
      break;
    case State::kLingering:
      if (now >= deadline_) close("lingered");
      break;
    case State::kHandling:
    case State::kFlushing:
    case State::kClosed: break;
  }
}

void Connection::close(std::string_view reason) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  count_body(0);
  error_code ignored;
  stream_->socket().close(ignored);
  if (gone_) {
    // Posted: the caller may be in the middle of writing this very reply.
    asio::post(host_.io, [gone = std::move(gone_), text = std::string(reason)] { gone(text); });
    gone_ = nullptr;
  }
  const auto self = shared_from_this();
  host_.forget(*this);
}

}  // namespace lineshaft::net
