#include "api/server.h"

#include <algorithm>
#include <random>
#include <utility>

#include "api/server_impl.h"
#include "net/address.h"
#include "recipe/dialect/fields.h"
#include "recipe/encoding/fill_in_middle.h"

namespace lineshaft::api {
namespace {

// vLLM's names for the same facts, for dashboards that know only those.
constexpr std::pair<std::string_view, std::string_view> kVllmNames[] = {
    {"lineshaft_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"lineshaft_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
    {"lineshaft_queue_time_seconds", "vllm:request_queue_time_seconds"},
    {"lineshaft_request_seconds", "vllm:e2e_request_latency_seconds"},
    {"lineshaft_prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"lineshaft_cached_tokens_total", "vllm:prefix_cache_hits_total"},
    {"lineshaft_generated_tokens_total", "vllm:generation_tokens_total"},
    {"lineshaft_running_requests", "vllm:num_requests_running"},
    {"lineshaft_waiting_requests", "vllm:num_requests_waiting"},
};

OrderContext order_context(const std::shared_ptr<const recipe::Tokenizer>& tokenizer,
                           StatusOr<recipe::ChatFormat> chat, ModelCard card, bool strict) {
  const Vocab& vocab = *tokenizer->vocab();
  OrderContext context;
  context.tokenizer = tokenizer;
  context.limits.vocab = vocab.size();
  context.limits.strict = strict;
  if (chat.ok()) {
    context.limits.abilities = chat->abilities;
    // A format may have places for images, but no model here sees them.
    auto& images = context.limits.abilities.images;
    if (images == recipe::Abilities::Images::kSeen) images = recipe::Abilities::Images::kRefused;
  }
  context.limits.abilities.fill_in_middle =
      recipe::fill_in_middle_pieces(*tokenizer, "", "").has_value();
  context.chat = std::move(chat);
  context.text_bytes_max = text_bytes_max(vocab, card.context_tokens);
  context.card = std::move(card);
  context.responses = std::make_shared<ResponseStore>();
  context.turns = std::make_shared<recipe::TurnMemory>(tokenizer);
  return context;
}

}  // namespace

Status ServerConfig::validate() const {
  LS_RETURN_IF_ERROR(http.validate());
  if (keys_file.empty() && !net::is_loopback_host(http.host)) {
    return invalid_argument(
        "host {} can be reached by others, and there are no keys: give a key file, or bind to "
        "127.0.0.1",
        http.host);
  }
  if (head_delay_max < Duration::milliseconds(1)) {
    return invalid_argument("head_delay_max is below 1 ms");
  }
  return ok_status();
}

// Deny by default: a route is closed unless it says otherwise. Exact paths come before prefixes.
const Server::Impl::Route Server::Impl::kRoutes[] = {
    {"POST", "/v1/chat/completions", false, &Impl::chat},
    {"POST", "/v1/chat/completions/input_tokens", false, &Impl::count_chat},
    {"POST", "/v1/completions", false, &Impl::completions},
    {"POST", "/v1/responses", false, &Impl::responses},
    {"POST", "/v1/responses/input_tokens", false, &Impl::count_responses},
    {"GET", "/v1/responses/", false, &Impl::read_response},
    {"DELETE", "/v1/responses/", false, &Impl::delete_response},
    {"POST", "/v1/responses/", false, &Impl::cancel_response},
    {"POST", "/v1/messages", false, &Impl::messages},
    {"POST", "/v1/messages/count_tokens", false, &Impl::count_messages},
    {"POST", "/tokenize", false, &Impl::tokenize},
    {"POST", "/detokenize", false, &Impl::detokenize},
    {"GET", "/v1/models", false, &Impl::models},
    {"GET", "/v1/models/", false, &Impl::model},
    {"GET", "/health", true, &Impl::health},
    {"GET", "/ready", true, &Impl::ready},
    {"GET", "/metrics", false, &Impl::metrics_page},
    {"GET", "/version", false, &Impl::version},
};

void Exchange::reply(net::HttpResponse response) const {
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  responder->send(std::move(response));
}

void Exchange::reply_json(const Json& body) const {
  reply({200, {{"content-type", "application/json"}}, write_json(body)});
}

void Exchange::fail(const Status& status) const {
  reply(error_response(status, dialect, request_id));
}

Server::Impl::Impl(ServerConfig c, RequestSink& sink,
                   std::shared_ptr<const recipe::Tokenizer> tokenizer,
                   StatusOr<recipe::ChatFormat> chat_format, ModelCard card, Metrics& m)
    : config(std::move(c)),
      orders(order_context(tokenizer, std::move(chat_format), std::move(card),
                           config.strict_fields)),
      metrics(m),
      api_metrics(m),
      loopback(net::is_loopback_host(config.http.host)),
      chance(std::random_device{}() ^ (uint64_t{std::random_device{}()} << 32)),
      http(config.http,
           [this](net::HttpRequest&& request, std::shared_ptr<net::Responder> responder) {
             handle(std::move(request), std::move(responder));
           }),
      context{sink,   http,        std::make_shared<EventMailbox>(http.poster()),
              orders, chance.split(3), api_metrics,
              clock,  config.head_delay_max} {
  if (!config.vllm_metric_names) return;
  for (const auto& [name, alias] : kVllmNames) metrics.add_alias(name, alias);
}

void Server::Impl::add_headers(Exchange& exchange) {
  const net::HttpRequest& request = exchange.request;
  const std::string_view id = request.header("x-request-id");
  const uint64_t number = counter.fetch_add(1);
  exchange.request_id =
      usable_id(id) ? std::string(id) : fmt::format("req-{:016x}", chance.bits(number));
  exchange.headers.emplace_back("x-request-id", exchange.request_id);
  if (exchange.dialect == Dialect::kMessages) {
    exchange.headers.emplace_back("request-id", exchange.request_id);
  }
  const std::string_view origin = request.header("origin");
  const auto& origins = config.cors_origins;
  const bool any = std::find(origins.begin(), origins.end(), "*") != origins.end();
  if (!origin.empty() && (any || std::find(origins.begin(), origins.end(), origin) !=
                                     origins.end())) {
    exchange.headers.emplace_back("access-control-allow-origin",
                                  any ? "*" : std::string(origin));
    exchange.headers.emplace_back("access-control-expose-headers",
                                  "x-request-id, request-id, x-seed");
    exchange.headers.emplace_back("vary", "origin");
  }
}

const Server::Impl::Route* Server::Impl::find_route(std::string_view method,
                                                    std::string_view path, std::string& allowed) {
  std::string_view found_path;
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    const bool prefix = route.path.back() == '/';
    const bool here = prefix ? path.size() > route.path.size() && path.starts_with(route.path)
                             : path == route.path;
    // The first path that fits is meant, with all its methods.
    if (!here || (!found_path.empty() && route.path != found_path)) continue;
    found_path = route.path;
    allowed += route.method == "GET" ? "GET, HEAD, " : fmt::format("{}, ", route.method);
    const bool head = route.method == "GET" && method == "HEAD";
    if (method == route.method || head) found = &route;
  }
  if (!allowed.empty()) allowed += "OPTIONS";
  return found;
}

net::HttpResponse Server::Impl::preflight(const net::HttpRequest& request,
                                          const std::string& allowed) const {
  net::HttpResponse response;
  response.status = 204;
  response.headers = {{"allow", allowed}};
  const bool asks = !request.header("access-control-request-method").empty();
  if (asks && !config.cors_origins.empty()) {
    response.headers.emplace_back("access-control-allow-methods", allowed);
    response.headers.emplace_back("access-control-allow-headers",
                                  "authorization, content-type, x-request-id, x-api-key, "
                                  "anthropic-version, anthropic-beta, "
                                  "anthropic-dangerous-direct-browser-access");
    response.headers.emplace_back("access-control-max-age", "600");
  }
  return response;
}

void Server::Impl::handle(net::HttpRequest&& request,
                          std::shared_ptr<net::Responder> responder) {
  Exchange exchange;
  exchange.request = std::move(request);
  exchange.responder = std::move(responder);
  exchange.dialect = error_dialect(exchange.request.path);
  add_headers(exchange);
  const Status host = check_host(exchange.request, loopback, config.allowed_hosts);
  if (!host.ok()) return exchange.fail(host);
  dispatch(std::move(exchange));
}

void Server::Impl::dispatch(Exchange&& exchange) {
  const net::HttpRequest& request = exchange.request;
  std::string allowed;
  const Route* route = find_route(request.method, request.path, allowed);
  if (request.method == "OPTIONS" && (!allowed.empty() || request.path == "*")) {
    if (allowed.empty()) allowed = "GET, HEAD, POST, DELETE, OPTIONS";
    return exchange.reply(preflight(request, allowed));
  }
  if (route != nullptr && route->open) return (this->*route->run)(std::move(exchange));
  auto key = check_key(request, keys);
  if (!key.ok()) return exchange.fail(key.status());
  exchange.key = *std::move(key);
  if (route != nullptr) return (this->*route->run)(std::move(exchange));
  if (allowed.empty()) {
    return exchange.fail(not_found("there is no route {} {}", recipe::shown(request.method),
                                   recipe::shown(request.path)));
  }
  net::HttpResponse response = error_response(
      invalid_argument("{} takes {}, not {}", recipe::shown(request.path), allowed,
                       recipe::shown(request.method)),
      exchange.dialect, exchange.request_id);
  response.status = 405;
  response.headers.emplace_back("allow", allowed);
  exchange.reply(std::move(response));
}

Server::Server(ServerConfig config, RequestSink& sink,
               std::shared_ptr<const recipe::Tokenizer> tokenizer,
               StatusOr<recipe::ChatFormat> chat, ModelCard card, Metrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(config), sink, std::move(tokenizer), std::move(chat),
                                   std::move(card), metrics)) {}

Server::~Server() { stop(); }

Status Server::check(const ServerConfig& config) {
  LS_RETURN_IF_ERROR(config.validate());
  if (!config.keys_file.empty()) LS_RETURN_IF_ERROR(KeyRing::load(config.keys_file).status());
  return net::HttpServer::check(config.http);
}

StatusOr<std::string> Server::start() {
  LS_RETURN_IF_ERROR(impl_->config.validate());
  if (!impl_->config.keys_file.empty()) {
    LS_ASSIGN_OR_RETURN(impl_->keys, KeyRing::load(impl_->config.keys_file));
  }
  impl_->pool = std::make_unique<TextPool>();
  return impl_->http.start();
}

void Server::begin_drain() {
  impl_->draining.store(true);
  impl_->http.begin_drain();
}

int Server::live_requests() const { return impl_->live->load(); }

void Server::stop(Duration grace) {
  impl_->draining.store(true);
  if (impl_->pool != nullptr) impl_->pool->stop();
  impl_->http.stop(grace);
}

}  // namespace lineshaft::api
