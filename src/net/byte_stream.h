// ByteStream: an accepted socket, plain or TLS, as a connection sees it. Internal to net.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>

namespace lineshaft::net {

// One read and one write may be under way at a time; handlers run on the socket's executor.
class ByteStream {
 public:
  using Handler = std::function<void(boost::system::error_code, size_t)>;
  virtual ~ByteStream() = default;
  virtual void handshake(std::function<void(boost::system::error_code)> done) = 0;
  virtual void read_some(boost::asio::mutable_buffer into, Handler done) = 0;
  virtual void write_some(boost::asio::const_buffer from, Handler done) = 0;
  virtual boost::asio::ip::tcp::socket& socket() = 0;
};

// `tls` nullptr: plain. Otherwise it must outlive the stream.
std::unique_ptr<ByteStream> make_byte_stream(boost::asio::ip::tcp::socket socket,
                                             boost::asio::ssl::context* tls);

}  // namespace lineshaft::net
