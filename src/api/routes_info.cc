// What the server says about its model and itself.
#include <algorithm>
#include <cctype>
#include <ctime>
#include <utility>

#include "api/server_impl.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

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

Json openai_model(const ModelCard& card, const std::string& id) {
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

// RFC 3339 in UTC.
std::string time_text(int64_t unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

Json anthropic_model(const ModelCard& card, const std::string& id) {
  Json out = Json::object();
  out["type"] = "model";
  out["id"] = id;
  out["display_name"] = id;
  out["created_at"] = time_text(card.created);
  out["max_input_tokens"] = card.context_tokens;
  out["max_tokens"] = card.context_tokens;
  return out;
}

// Anthropic's clients send this with every request.
bool is_anthropic(const Exchange& exchange) {
  return !exchange.request.header("anthropic-version").empty();
}

Json model_json(const Exchange& exchange, const ModelCard& card, const std::string& id) {
  return is_anthropic(exchange) ? anthropic_model(card, id) : openai_model(card, id);
}

}  // namespace

void Server::Impl::models(Exchange&& exchange) {
  const ModelCard& card = orders.card;
  Json data = Json::array({model_json(exchange, card, card.id)});
  for (const std::string& alias : card.aliases) {
    data.push_back(model_json(exchange, card, alias));
  }
  Json body = Json::object();
  if (is_anthropic(exchange)) {
    body["first_id"] = data.front()["id"];
    body["last_id"] = data.back()["id"];
    body["has_more"] = false;
  } else {
    body["object"] = "list";
  }
  body["data"] = std::move(data);
  exchange.reply_json(body);
}

void Server::Impl::model(Exchange&& exchange) {
  const ModelCard& card = orders.card;
  const std::string id =
      percent_decode(std::string_view(exchange.request.path).substr(kModelPrefix.size()));
  if (id == card.id ||
      std::find(card.aliases.begin(), card.aliases.end(), id) != card.aliases.end()) {
    return exchange.reply_json(model_json(exchange, card, id));
  }
  if (is_anthropic(exchange)) exchange.dialect = Dialect::kMessages;
  const Status status =
      not_found("the model '{}' does not exist here; '{}' does", recipe::shown(id), card.id);
  exchange.fail(with_reason(with_field(status, "model"), "model_not_found"));
}

void Server::Impl::health(Exchange&& exchange) { exchange.reply_json({{"status", "ok"}}); }

void Server::Impl::ready(Exchange&& exchange) {
  if (draining.load()) {
    return exchange.fail(with_retry_after(unavailable("the server is shutting down"), 2));
  }
  exchange.reply_json({{"status", "ready"}});
}

void Server::Impl::metrics_page(Exchange&& exchange) {
  net::HttpResponse response;
  response.headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}};
  response.body = metrics.text();
  exchange.reply(std::move(response));
}

void Server::Impl::version(Exchange&& exchange) {
  exchange.reply_json({{"version", config.version}});
}

}  // namespace lineshaft::api
