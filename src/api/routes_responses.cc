// Responses that were kept: reading, deleting, their input.
#include <algorithm>
#include <charconv>
#include <utility>

#include "api/server_impl.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kPrefix = "/v1/responses/";
constexpr size_t kPageItems = 20;  // OpenAI's numbers
constexpr size_t kPageItemsMax = 100;

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

// The value of a parameter of a query; empty when it isn't there.
std::string_view parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return {};
}

// Item i of the input as OpenAI lists it: with an id, and its text as a part.
Json listed_item(const StoredResponse& stored, size_t i) {
  Json item = stored.input[i];
  if (!item.is_object()) return item;
  if (!item.contains("type")) item["type"] = "message";
  if (!item.contains("id")) item["id"] = fmt::format("item_{}_{}", stored.id, i);
  if (item["type"] != "message" || !item.contains("content") || !item["content"].is_string()) {
    return item;
  }
  const bool own = item.contains("role") && item["role"] == "assistant";
  Json part = {{"type", own ? "output_text" : "input_text"}};
  part["text"] = item["content"];
  if (own) part["annotations"] = Json::array();
  item["content"] = Json::array({std::move(part)});
  return item;
}

// A page of the input's items, the last first unless the query says otherwise.
StatusOr<Json> input_page(const StoredResponse& stored, std::string_view query) {
  size_t limit = kPageItems;
  if (const std::string_view text = parameter(query, "limit"); !text.empty()) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), limit);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    if (!whole || limit < 1 || limit > kPageItemsMax) {
      return recipe::field_error("limit", "must be 1 to {}", kPageItemsMax);
    }
  }
  const std::string_view order = parameter(query, "order");
  if (!order.empty() && order != "asc" && order != "desc") {
    return recipe::field_error("order", "must be asc or desc");
  }
  const std::string_view after = parameter(query, "after");
  const size_t count = stored.input.size();
  bool begun = after.empty();
  Json data = Json::array();
  bool more = false;
  for (size_t n = 0; n < count; ++n) {
    Json item = listed_item(stored, order == "asc" ? n : count - 1 - n);
    if (begun && data.size() == limit) {
      more = true;
      break;
    }
    const Json id = item.is_object() ? item["id"] : Json();
    if (begun) data.push_back(std::move(item));
    begun = begun || id == after;
  }
  Json out = {{"object", "list"}};
  out["first_id"] = data.empty() ? Json() : data.front()["id"];
  out["last_id"] = data.empty() ? Json() : data.back()["id"];
  out["has_more"] = more;
  out["data"] = std::move(data);
  return out;
}

}  // namespace

void Server::Impl::read_response(Exchange&& exchange) {
  const auto [id, tail] = parts_of(exchange.request.path);
  const auto stored = orders.responses->find(id, exchange.tenant());
  if (stored == nullptr) return exchange.fail(unknown(id));
  if (tail.empty()) return exchange.reply_json(stored->response);
  if (tail == "input_items") {
    const auto page = input_page(*stored, exchange.request.query);
    return page.ok() ? exchange.reply_json(*page) : exchange.fail(page.status());
  }
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
