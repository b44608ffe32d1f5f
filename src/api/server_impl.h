// The inside of Server: what its routes share. Routes lie in files by purpose: routes_generate.cc,
// routes_responses.cc, routes_text.cc, routes_info.cc. All of it runs on the reactor thread, but
// for what goes to the text pool.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/access.h"
#include "api/completion.h"
#include "api/error_map.h"
#include "api/keys.h"
#include "api/server.h"
#include "api/text_pool.h"
#include "base/clock.h"
#include "base/rng.h"

namespace lineshaft::api {

// One HTTP request on its way to an answer.
struct Exchange {
  net::HttpRequest request;
  std::shared_ptr<net::Responder> responder;
  net::HttpHeaders headers;     // for every reply
  std::string request_id;
  Dialect dialect = Dialect::kChat;  // in whose shape failures are told
  std::shared_ptr<KeyUse> key;  // nullptr when the server has no keys
  std::shared_ptr<void> ticket;  // the server counts those that are alive

  std::string_view tenant() const {
    return key == nullptr ? std::string_view{} : std::string_view(key->entry().tenant);
  }
  void reply(net::HttpResponse response) const;
  void reply_json(const Json& body) const;
  void fail(const Status& status) const;
};

struct Server::Impl {
  Impl(ServerConfig c, RequestSink& sink, std::shared_ptr<const recipe::Tokenizer> tokenizer,
       StatusOr<recipe::ChatFormat> chat, ModelCard card, Metrics& m);

  struct Route {
    std::string_view method;
    std::string_view path;  // one that ends in '/' begins longer paths
    bool open;              // served without a key
    void (Impl::*run)(Exchange&&);
  };
  static const Route kRoutes[];

  void handle(net::HttpRequest&& request, std::shared_ptr<net::Responder> responder);
  void dispatch(Exchange&& exchange);
  void add_headers(Exchange& exchange);
  // The route, or nullptr and the methods that the path takes ("" when there is no such path).
  static const Route* find_route(std::string_view method, std::string_view path,
                                 std::string& allowed);
  net::HttpResponse preflight(const net::HttpRequest& request, const std::string& allowed) const;

  // routes_generate.cc
  void chat(Exchange&& exchange) { generate(Dialect::kChat, std::move(exchange)); }
  void completions(Exchange&& exchange) { generate(Dialect::kCompletions, std::move(exchange)); }
  void responses(Exchange&& exchange) { generate(Dialect::kResponses, std::move(exchange)); }
  void messages(Exchange&& exchange) { generate(Dialect::kMessages, std::move(exchange)); }
  void count_chat(Exchange&& exchange) { count(Dialect::kChat, std::move(exchange)); }
  void count_responses(Exchange&& exchange) { count(Dialect::kResponses, std::move(exchange)); }
  void count_messages(Exchange&& exchange) { count(Dialect::kMessages, std::move(exchange)); }
  void generate(Dialect dialect, Exchange&& exchange);
  void count(Dialect dialect, Exchange&& exchange);
  void run_order(StatusOr<Order> order, Exchange&& exchange);
  Status begin(const Order& order, CompletionRequest& completion);
  // Whether the request may do work now, by its content type and the server's state; else the reply
  // is on its way.
  bool admit(const Exchange& exchange) const;
  // Runs `work` on a thread where it holds nobody up, by the length of the body, and then `then`
  // here. Answers by itself when too much waits.
  template <typename Result>
  void run_text(Exchange&& exchange, std::function<Result(const Exchange&)> work,
                std::function<void(Result, Exchange&&)> then);

  // routes_responses.cc
  void read_response(Exchange&& exchange);
  void delete_response(Exchange&& exchange);
  void cancel_response(Exchange&& exchange);

  // routes_text.cc
  void tokenize(Exchange&& exchange);
  void detokenize(Exchange&& exchange);

  // routes_info.cc
  void models(Exchange&& exchange);
  void model(Exchange&& exchange);
  void health(Exchange&& exchange);
  void ready(Exchange&& exchange);
  void metrics_page(Exchange&& exchange);
  void version(Exchange&& exchange);

  const ServerConfig config;
  const OrderContext orders;
  Metrics& metrics;
  SystemClock clock;
  ApiMetrics api_metrics;
  KeyRing keys;
  const bool loopback;
  const RngKey chance;               // of this process: ids, and seeds that nobody gave
  std::atomic<uint64_t> counter{0};
  std::atomic<bool> draining{false};
  std::shared_ptr<std::atomic<int>> live = std::make_shared<std::atomic<int>>(0);
  net::HttpServer http;
  CompletionContext context;
  std::unique_ptr<TextPool> pool;
};

template <typename Result>
void Server::Impl::run_text(Exchange&& exchange, std::function<Result(const Exchange&)> work,
                            std::function<void(Result, Exchange&&)> then) {
  if (exchange.request.body.size() <= config.inline_body_bytes_max) {
    Result result = work(exchange);
    return then(std::move(result), std::move(exchange));
  }
  // A std::function wants copies, so what moves through the pool lies behind a pointer.
  struct Job {
    Exchange exchange;
    std::function<Result(const Exchange&)> work;
    std::function<void(Result, Exchange&&)> then;
    std::optional<Result> result;
  };
  auto job = std::make_shared<Job>(
      Job{std::move(exchange), std::move(work), std::move(then), std::nullopt});
  const bool taken = pool->submit([this, job] {
    job->result.emplace(job->work(job->exchange));
    http.post([job] { job->then(std::move(*job->result), std::move(job->exchange)); });
  });
  if (!taken) {
    job->exchange.fail(resource_exhausted("too many long prompts wait; try again soon"));
  }
}

}  // namespace lineshaft::api
