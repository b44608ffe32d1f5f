// Responses that were kept: reading, deleting, their input.
#include <utility>

#include "api/server_impl.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kPrefix = "/v1/responses/";

// "/v1/responses/ID/TAIL" -> {ID, TAIL}.
std::pair<std::string, std::string> parts_of(const std::string& path) {
  const std::string rest = path.substr(kPrefix.size());
  const size_t slash = rest.find('/');
  if (slash == std::string::npos) return {rest, ""};
  return {rest.substr(0, slash), rest.substr(slash + 1)};
}

Status unknown(std::string_view id) {
  return not_found("Response with id '{}' not found.", recipe::shown(id));
}

// The items of the input, each with an id, as OpenAI lists them.
Json input_list(const StoredResponse& stored) {
  Json data = stored.input;
  for (size_t i = 0; i < data.size(); ++i) {
    Json& item = data[i];
    if (!item.is_object()) continue;
    if (!item.contains("type")) item["type"] = "message";
    if (!item.contains("id")) item["id"] = fmt::format("item_{}_{}", stored.id, i);
    if (item["type"] == "message" && item.contains("content") && item["content"].is_string()) {
      const bool own = item.contains("role") && item["role"] == "assistant";
      Json part = {{"type", own ? "output_text" : "input_text"}};
      part["text"] = item["content"];
      if (own) part["annotations"] = Json::array();
      item["content"] = Json::array({std::move(part)});
    }
  }
  Json out = {{"object", "list"}};
  out["first_id"] = data.empty() ? Json() : data.front()["id"];
  out["last_id"] = data.empty() ? Json() : data.back()["id"];
  out["has_more"] = false;
  out["data"] = std::move(data);
  return out;
}

}  // namespace

void Server::Impl::read_response(Exchange&& exchange) {
  const auto [id, tail] = parts_of(exchange.request.path);
  const auto stored = orders.responses->find(id, exchange.tenant());
  if (stored == nullptr) return exchange.fail(unknown(id));
  if (tail.empty()) return exchange.reply_json(stored->response);
  if (tail == "input_items") return exchange.reply_json(input_list(*stored));
  exchange.fail(not_found("there is no '{}' of a response", recipe::shown(tail)));
}

void Server::Impl::delete_response(Exchange&& exchange) {
  const auto [id, tail] = parts_of(exchange.request.path);
  if (!tail.empty() || !orders.responses->erase(id, exchange.tenant())) {
    return exchange.fail(unknown(id));
  }
  Json body = Json::object();
  body["id"] = id;
  body["object"] = "response";
  body["deleted"] = true;
  exchange.reply_json(body);
}

// Only responses in the background can be cancelled, and there are none.
void Server::Impl::cancel_response(Exchange&& exchange) {
  const auto [id, tail] = parts_of(exchange.request.path);
  if (tail != "cancel") {
    return exchange.fail(not_found("there is no route POST {}",
                                   recipe::shown(exchange.request.path)));
  }
  if (orders.responses->find(id, exchange.tenant()) == nullptr) return exchange.fail(unknown(id));
  exchange.fail(invalid_argument("Only responses in the background can be cancelled; close the "
                                 "connection of others."));
}

}  // namespace lineshaft::api
