#include "api/server.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <random>
#include <utility>

#include "api/completion.h"
#include "api/error_map.h"
#include "api/keys.h"
#include "api/text_pool.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "net/address.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

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

// The client's id when it is one that can go into a log line and a header.
bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
}

std::string percent_decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      const auto c = static_cast<unsigned char>(text[at]);
      return std::isdigit(c) ? c - '0' : std::tolower(c) - 'a' + 10;
    };
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 1])) &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 2]));
    if (escaped) {
      out.push_back(static_cast<char>(digit(i + 1) * 16 + digit(i + 2)));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string bearer_token(const net::HttpRequest& request) {
  const std::string_view value = request.header("authorization");
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(value[i])) != kScheme[i]) return {};
  }
  const size_t begin = value.find_first_not_of(' ', kScheme.size());
  return begin == std::string_view::npos ? std::string() : std::string(value.substr(begin));
}

// JSON media types; a missing one too, unless a browser sent it: a page of another site can send a
// body without a type, or as a form or text, without asking first.
Status check_content_type(const net::HttpRequest& request) {
  std::string type(request.header("content-type"));
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (type == "application/json" || type.ends_with("+json") || type == "text/json") {
    return ok_status();
  }
  if (type.empty() && request.header("origin").empty()) return ok_status();
  return invalid_argument("content-type '{}' is not served: send application/json",
                          recipe::shown(type));
}

Json model_json(const ModelCard& card, const std::string& id) {
  Json out = {{"id", id},
              {"object", "model"},
              {"created", card.created},
              {"owned_by", "lineshaft"},
              {"max_model_len", card.context_tokens},
              {"context_length", card.context_tokens}};
  if (!card.family.empty()) out["family"] = card.family;
  if (!card.quantization.empty()) out["quantization"] = card.quantization;
  return out;
}

OrderContext order_context(const std::shared_ptr<const recipe::Tokenizer>& tokenizer,
                           StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat,
                           ModelCard card, bool strict) {
  const Vocab& vocab = *tokenizer->vocab();
  const size_t bytes_max = text_bytes_max(vocab, card.context_tokens);
  return {tokenizer, std::move(chat), std::move(card),
          recipe::DialectLimits{.vocab = vocab.size(), .strict = strict}, bytes_max};
}

net::HttpResponse json_response(std::string body) {
  return {200, {{"content-type", "application/json"}}, std::move(body)};
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

struct Server::Impl {
  Impl(ServerConfig c, RequestSink& sink, std::shared_ptr<const recipe::Tokenizer> tokenizer,
       StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat, ModelCard card, Metrics& m);

  struct Route {
    std::string_view method;
    std::string_view path;
    bool open;  // served without a key
    void (Impl::*run)(const net::HttpRequest&, const std::shared_ptr<net::Responder>&,
                      const net::HttpHeaders&, const std::shared_ptr<KeyUse>&);
  };
  static const Route kRoutes[];

  void handle(net::HttpRequest&& request, std::shared_ptr<net::Responder> responder);
  net::HttpHeaders common_headers(const net::HttpRequest& request);
  Status check_host(const net::HttpRequest& request) const;
  StatusOr<std::shared_ptr<KeyUse>> check_key(const net::HttpRequest& request) const;
  const Route* find_route(std::string_view method, std::string_view path,
                          std::string& allowed) const;
  net::HttpResponse preflight(const net::HttpRequest& request, const std::string& allowed) const;
  static void reply(net::Responder& responder, net::HttpResponse response,
                    const net::HttpHeaders& headers);

  using Responder = std::shared_ptr<net::Responder>;
  using Key = std::shared_ptr<KeyUse>;
  void chat(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void completions(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void models(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void model(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void health(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void ready(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void metrics_page(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);
  void version(const net::HttpRequest&, const Responder&, const net::HttpHeaders&, const Key&);

  void generate(Dialect dialect, const net::HttpRequest& request, CompletionRequest completion);
  void run_order(StatusOr<Order> order, CompletionRequest completion);
  Status begin(const Order& order, CompletionRequest& completion);

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

// Deny by default: a route is closed unless it says otherwise.
const Server::Impl::Route Server::Impl::kRoutes[] = {
    {"POST", "/v1/chat/completions", false, &Impl::chat},
    {"POST", "/v1/completions", false, &Impl::completions},
    {"GET", "/v1/models", false, &Impl::models},
    {"GET", kModelPrefix, false, &Impl::model},
    {"GET", "/health", true, &Impl::health},
    {"GET", "/ready", true, &Impl::ready},
    {"GET", "/metrics", false, &Impl::metrics_page},
    {"GET", "/version", false, &Impl::version},
};

Server::Impl::Impl(ServerConfig c, RequestSink& sink,
                   std::shared_ptr<const recipe::Tokenizer> tokenizer,
                   StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat_encoder,
                   ModelCard card, Metrics& m)
    : config(std::move(c)),
      orders(order_context(tokenizer, std::move(chat_encoder), std::move(card),
                           config.strict_fields)),
      metrics(m),
      api_metrics(m),
      loopback(net::is_loopback_host(config.http.host)),
      chance(std::random_device{}() ^ (uint64_t{std::random_device{}()} << 32)),
      http(config.http,
           [this](net::HttpRequest&& request, std::shared_ptr<net::Responder> responder) {
             handle(std::move(request), std::move(responder));
           }),
      context{sink,
              http,
              std::make_shared<EventMailbox>(http.poster()),
              tokenizer->vocab(),
              orders.card.system_fingerprint,
              api_metrics,
              clock,
              config.head_delay_max} {
  if (!config.vllm_metric_names) return;
  for (const auto& [name, alias] : kVllmNames) metrics.add_alias(name, alias);
}

net::HttpHeaders Server::Impl::common_headers(const net::HttpRequest& request) {
  net::HttpHeaders headers;
  const std::string_view id = request.header("x-request-id");
  const uint64_t number = counter.fetch_add(1);
  headers.emplace_back("x-request-id", usable_id(id)
                                           ? std::string(id)
                                           : fmt::format("req-{:016x}", chance.bits(number)));
  const std::string_view origin = request.header("origin");
  const auto& origins = config.cors_origins;
  const bool any = std::find(origins.begin(), origins.end(), "*") != origins.end();
  if (!origin.empty() && (any || std::find(origins.begin(), origins.end(), origin) !=
                                     origins.end())) {
    headers.emplace_back("access-control-allow-origin", any ? "*" : std::string(origin));
    headers.emplace_back("access-control-expose-headers", "x-request-id, x-seed");
    headers.emplace_back("vary", "origin");
  }
  return headers;
}

// Against DNS rebinding: a page whose name is pointed at 127.0.0.1 sends its own name.
Status Server::Impl::check_host(const net::HttpRequest& request) const {
  const bool given = std::any_of(request.headers.begin(), request.headers.end(),
                                 [](const auto& header) { return header.first == "host"; });
  if (!given && request.version_minor == 0) return ok_status();
  if (!given) return invalid_argument("the Host header is missing");
  if (!loopback) return ok_status();
  const std::string host = net::host_part(request.header("host"));
  const auto& more = config.allowed_hosts;
  if (net::is_loopback_host(host) || std::find(more.begin(), more.end(), host) != more.end()) {
    return ok_status();
  }
  return permission_denied("Host '{}' is not served on loopback", recipe::shown(host));
}

StatusOr<std::shared_ptr<KeyUse>> Server::Impl::check_key(const net::HttpRequest& request) const {
  if (keys.empty()) return std::shared_ptr<KeyUse>();
  const std::string token = bearer_token(request);
  if (token.empty()) {
    return unauthenticated("no API key was given: send 'Authorization: Bearer KEY'");
  }
  auto key = keys.find(token);
  if (key == nullptr) return unauthenticated("the API key is not known here");
  return key;
}

const Server::Impl::Route* Server::Impl::find_route(std::string_view method, std::string_view path,
                                                    std::string& allowed) const {
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    const bool prefix = route.path.back() == '/';
    const bool here = prefix ? path.size() > route.path.size() && path.starts_with(route.path)
                             : path == route.path;
    if (!here) continue;
    const bool get = route.method == "GET";
    allowed = get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    if (method == route.method || (get && method == "HEAD")) found = &route;
  }
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
                                  "authorization, content-type, x-request-id");
    response.headers.emplace_back("access-control-max-age", "600");
  }
  return response;
}

void Server::Impl::reply(net::Responder& responder, net::HttpResponse response,
                         const net::HttpHeaders& headers) {
  response.headers.insert(response.headers.end(), headers.begin(), headers.end());
  responder.send(std::move(response));
}

void Server::Impl::handle(net::HttpRequest&& request,
                          std::shared_ptr<net::Responder> responder) {
  const net::HttpHeaders headers = common_headers(request);
  const auto fail = [&](const Status& status) {
    reply(*responder, error_response(status), headers);
  };
  if (const Status host = check_host(request); !host.ok()) return fail(host);
  std::string allowed;
  const Route* route = find_route(request.method, request.path, allowed);
  if (request.method == "OPTIONS" && (!allowed.empty() || request.path == "*")) {
    if (allowed.empty()) allowed = "GET, HEAD, POST, OPTIONS";
    return reply(*responder, preflight(request, allowed), headers);
  }
  if (route == nullptr || !route->open) {
    const auto key = check_key(request);
    if (!key.ok()) return fail(key.status());
    if (route != nullptr) return (this->*route->run)(request, responder, headers, *key);
    if (allowed.empty()) {
      return fail(not_found("there is no route {} {}", recipe::shown(request.method),
                            recipe::shown(request.path)));
    }
    net::HttpResponse response = error_response(
        invalid_argument("{} takes {}, not {}", recipe::shown(request.path), allowed,
                         recipe::shown(request.method)));
    response.status = 405;
    response.headers.emplace_back("allow", allowed);
    return reply(*responder, std::move(response), headers);
  }
  (this->*route->run)(request, responder, headers, nullptr);
}

void Server::Impl::chat(const net::HttpRequest& request, const Responder& responder,
                        const net::HttpHeaders& headers, const Key& key) {
  generate(Dialect::kChat, request, {{}, {}, 0, headers, responder, key, {}});
}

void Server::Impl::completions(const net::HttpRequest& request, const Responder& responder,
                               const net::HttpHeaders& headers, const Key& key) {
  generate(Dialect::kCompletions, request, {{}, {}, 0, headers, responder, key, {}});
}

void Server::Impl::generate(Dialect dialect, const net::HttpRequest& request,
                            CompletionRequest completion) {
  const auto fail = [&](net::HttpResponse response) {
    reply(*completion.responder, std::move(response), completion.headers);
  };
  if (draining.load()) {
    return fail(error_response(with_retry_after(unavailable("the server is shutting down"), 2)));
  }
  if (const Status type = check_content_type(request); !type.ok()) {
    net::HttpResponse response = error_response(type);
    response.status = 415;
    return fail(std::move(response));
  }
  live->fetch_add(1);
  completion.ticket =
      std::shared_ptr<void>(nullptr, [count = live](void*) { count->fetch_sub(1); });
  if (request.body.size() <= config.inline_body_bytes_max) {
    return run_order(prepare_order(dialect, request.body, orders), std::move(completion));
  }
  // A std::function wants copies, so what moves through the pool lies behind a pointer.
  struct Job {
    std::string body;
    CompletionRequest completion;
    StatusOr<Order> order;
  };
  auto job = std::make_shared<Job>(
      Job{request.body, std::move(completion), unavailable("not prepared")});
  const bool taken = pool->submit([this, dialect, job] {
    job->order = prepare_order(dialect, job->body, orders);
    http.post([this, job] { run_order(std::move(job->order), std::move(job->completion)); });
  });
  if (!taken) {
    reply(*job->completion.responder,
          error_response(resource_exhausted("too many long prompts wait; try again soon")),
          job->completion.headers);
  }
}

Status Server::Impl::begin(const Order& order, CompletionRequest& completion) {
  const uint64_t number = counter.fetch_add(1);
  completion.id = fmt::format("{:016x}{:08x}", chance.split(1).bits(number),
                              static_cast<uint32_t>(number));
  // Drawn seeds stay below 2^53, so that every JSON reader can send one back exactly.
  completion.seed = order.generation.seed_given
                        ? order.generation.sampling.seed
                        : chance.split(2).bits(number) & ((uint64_t{1} << 53) - 1);
  completion.headers.emplace_back("x-seed",
                                  std::to_string(static_cast<int64_t>(completion.seed)));
  if (completion.key == nullptr) return ok_status();
  return completion.key->begin(order.prompt_tokens(), clock.now());
}

void Server::Impl::run_order(StatusOr<Order> order, CompletionRequest completion) {
  Status status = order.status();
  if (status.ok()) status = begin(*order, completion);
  if (!status.ok()) {
    return reply(*completion.responder, error_response(status), completion.headers);
  }
  completion.order = std::move(*order);
  std::make_shared<Completion>(context, std::move(completion))->start();
}

void Server::Impl::models(const net::HttpRequest&, const Responder& responder,
                          const net::HttpHeaders& headers, const Key&) {
  const ModelCard& card = orders.card;
  Json data = Json::array({model_json(card, card.id)});
  for (const std::string& alias : card.aliases) data.push_back(model_json(card, alias));
  reply(*responder, json_response(write_json({{"object", "list"}, {"data", data}})), headers);
}

void Server::Impl::model(const net::HttpRequest& request, const Responder& responder,
                         const net::HttpHeaders& headers, const Key&) {
  const ModelCard& card = orders.card;
  const std::string id = percent_decode(std::string_view(request.path).substr(kModelPrefix.size()));
  if (id == card.id ||
      std::find(card.aliases.begin(), card.aliases.end(), id) != card.aliases.end()) {
    return reply(*responder, json_response(write_json(model_json(card, id))), headers);
  }
  const Status status =
      not_found("the model '{}' does not exist here; '{}' does", recipe::shown(id), card.id);
  reply(*responder, error_response(with_reason(with_field(status, "model"), "model_not_found")),
        headers);
}

void Server::Impl::health(const net::HttpRequest&, const Responder& responder,
                          const net::HttpHeaders& headers, const Key&) {
  reply(*responder, json_response(R"({"status":"ok"})"), headers);
}

void Server::Impl::ready(const net::HttpRequest&, const Responder& responder,
                         const net::HttpHeaders& headers, const Key&) {
  if (draining.load()) {
    const Status status = with_retry_after(unavailable("the server is shutting down"), 2);
    return reply(*responder, error_response(status), headers);
  }
  reply(*responder, json_response(R"({"status":"ready"})"), headers);
}

void Server::Impl::metrics_page(const net::HttpRequest&, const Responder& responder,
                                const net::HttpHeaders& headers, const Key&) {
  net::HttpResponse response;
  response.headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}};
  response.body = metrics.text();
  reply(*responder, std::move(response), headers);
}

void Server::Impl::version(const net::HttpRequest&, const Responder& responder,
                           const net::HttpHeaders& headers, const Key&) {
  reply(*responder, json_response(write_json({{"version", config.version}})), headers);
}

Server::Server(ServerConfig config, RequestSink& sink,
               std::shared_ptr<const recipe::Tokenizer> tokenizer,
               StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat, ModelCard card,
               Metrics& metrics)
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
