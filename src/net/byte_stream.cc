#include "net/byte_stream.h"

#include <boost/asio/ssl/stream.hpp>
#include <utility>

namespace lineshaft::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(tcp::socket socket) : socket_(std::move(socket)) {}
  void handshake(std::function<void(boost::system::error_code)> done) override { done({}); }
  void read_some(asio::mutable_buffer into, Handler done) override {
    socket_.async_read_some(into, std::move(done));
  }
  void write_some(asio::const_buffer from, Handler done) override {
    socket_.async_write_some(from, std::move(done));
  }
  tcp::socket& socket() override { return socket_; }

 private:
  tcp::socket socket_;
};

class TlsStream final : public ByteStream {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context& tls) : stream_(std::move(socket), tls) {}
  void handshake(std::function<void(boost::system::error_code)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, std::move(done));
  }
  void read_some(asio::mutable_buffer into, Handler done) override {
    stream_.async_read_some(into, std::move(done));
  }
  void write_some(asio::const_buffer from, Handler done) override {
    stream_.async_write_some(from, std::move(done));
  }
  tcp::socket& socket() override { return stream_.next_layer(); }

 private:
  asio::ssl::stream<tcp::socket> stream_;
};

}  // namespace

std::unique_ptr<ByteStream> make_byte_stream(tcp::socket socket, asio::ssl::context* tls) {
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(socket));
  return std::make_unique<TlsStream>(std::move(socket), *tls);
}

}  // namespace lineshaft::net
