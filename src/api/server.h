// Server: the HTTP APIs of OpenAI and Anthropic over a RequestSink: routes, keys, health, metrics
// page. Turns requests into orders and events into replies; decides nothing about scheduling and
// sees no engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/order.h"
#include "base/metrics.h"
#include "base/status.h"
#include "core/doors/request_sink.h"
#include "net/http_server.h"

namespace lineshaft::api {

struct ServerConfig {
  net::HttpConfig http;
  std::string keys_file;                   // see api/keys.h; "": no keys, loopback only
  std::vector<std::string> cors_origins;   // origins that browsers may call from; "*": any
  std::vector<std::string> allowed_hosts;  // Host names taken on loopback besides its own
  bool strict_fields = false;              // unknown fields are refused, not warned of
  bool vllm_metric_names = false;          // print metrics under vLLM's names too
  std::string version = "0.1.0";           // what /version says
  // A stream's head is sent by then even if no token is there, so that no client waits in silence.
  Duration head_delay_max = Duration::milliseconds(500);
  // Longer bodies are parsed and tokenized on a thread of their own.
  size_t inline_body_bytes_max = 32 << 10;

  // kInvalidArgument names the field: among others a host that is not loopback without a key file.
  Status validate() const;
};

class Server {
 public:
  // `sink` and `metrics` outlive the Server; events that the sink delivers after stop() are
  // dropped. `chat` may be the reason why chat is refused.
  Server(ServerConfig config, RequestSink& sink,
         std::shared_ptr<const recipe::Tokenizer> tokenizer,
         StatusOr<recipe::ChatFormat> chat, ModelCard card, Metrics& metrics);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Whether start() with these settings would go well now: key file, TLS files, a free address.
  static Status check(const ServerConfig& config);

  // Reads the key file, binds and serves. Returns "host:port" with the real port.
  StatusOr<std::string> start();

  // From now on requests for text get 503 with Retry-After and /ready says 503; those that run are
  // finished. Any thread, idempotent.
  void begin_drain();

  // Requests for text without a complete reply; any thread.
  int live_requests() const;

  // Gives replies `grace` to reach their clients, closes everything and joins; idempotent.
  void stop(Duration grace = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lineshaft::api
