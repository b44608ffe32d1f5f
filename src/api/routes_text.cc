// Text to tokens and back, without a model.
#include <utility>
#include <vector>

#include "api/server_impl.h"
#include "base/utf8.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

using recipe::Fields;
using recipe::Tokenizer;

constexpr size_t kTokensMax = 1 << 20;

struct TokenizeOrder {
  std::string text;
  bool add_special = false;    // begin with BOS where the model wants one
  bool parse_special = false;  // control tokens that the text spells become such
  bool with_pieces = false;
};

StatusOr<TokenizeOrder> read_tokenize(const Json& body, recipe::Warnings& warnings) {
  if (!body.is_object()) {
    return invalid_argument("the body must be a JSON object, not {}",
                            recipe::json_type_name(body));
  }
  Fields fields(body, "", warnings);
  TokenizeOrder order;
  if (fields.take("content") == nullptr) return recipe::field_error("content", "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("content", order.text));
  LS_RETURN_IF_ERROR(fields.read_bool("add_special", order.add_special));
  LS_RETURN_IF_ERROR(fields.read_bool("parse_special", order.parse_special));
  LS_RETURN_IF_ERROR(fields.read_bool("with_pieces", order.with_pieces));
  LS_RETURN_IF_ERROR(fields.ignore("model", recipe::kString, "there is one model"));
  LS_RETURN_IF_ERROR(fields.finish(false));
  return order;
}

// {"id", "piece"}, as llama.cpp shows them: text, or the bytes of what is none.
Json piece_json(TokenId id, const Tokenizer& tokenizer) {
  const std::string bytes(tokenizer.token_bytes(id));
  Json out = Json::object();
  out["id"] = id;
  if (valid_utf8_prefix(bytes) == bytes.size()) {
    out["piece"] = bytes;
    return out;
  }
  out["piece"] = Json::array();
  for (const char byte : bytes) out["piece"].push_back(static_cast<uint8_t>(byte));
  return out;
}

void add_warnings(Json& body, const recipe::Warnings& warnings) {
  const auto list = warnings.list();
  if (!list.empty()) body["warnings"] = list;
}

StatusOr<Json> tokenized(const std::string& text, const Tokenizer& tokenizer) {
  LS_ASSIGN_OR_RETURN(const Json body, parse_json(text));
  recipe::Warnings warnings;
  LS_ASSIGN_OR_RETURN(const TokenizeOrder order, read_tokenize(body, warnings));
  const auto vocab = tokenizer.vocab();
  std::vector<TokenId> ids;
  if (order.add_special && vocab->add_bos && vocab->bos >= 0) ids.push_back(vocab->bos);
  const auto words = tokenizer.encode(
      order.text, order.parse_special ? Tokenizer::Mode::kSpecial : Tokenizer::Mode::kPlain);
  ids.insert(ids.end(), words.begin(), words.end());
  Json out = Json::object();
  if (order.with_pieces) {
    out["tokens"] = Json::array();
    for (const TokenId id : ids) out["tokens"].push_back(piece_json(id, tokenizer));
  } else {
    out["tokens"] = std::move(ids);
  }
  add_warnings(out, warnings);
  return out;
}

StatusOr<Json> detokenized(const std::string& text, const Tokenizer& tokenizer) {
  LS_ASSIGN_OR_RETURN(const Json body, parse_json(text));
  if (!body.is_object()) {
    return invalid_argument("the body must be a JSON object, not {}",
                            recipe::json_type_name(body));
  }
  recipe::Warnings warnings;
  Fields fields(body, "", warnings);
  const Json* tokens = fields.take("tokens");
  if (tokens == nullptr) return recipe::field_error("tokens", "is missing");
  if (!tokens->is_array()) return recipe::field_error("tokens", "must be an array of token ids");
  if (tokens->size() > kTokensMax) {
    return recipe::field_error("tokens", "has more than {} entries", kTokensMax);
  }
  LS_RETURN_IF_ERROR(fields.ignore("model", recipe::kString, "there is one model"));
  LS_RETURN_IF_ERROR(fields.finish(false));
  std::vector<TokenId> ids;
  for (size_t i = 0; i < tokens->size(); ++i) {
    LS_ASSIGN_OR_RETURN(const int64_t id,
                        recipe::integer_value((*tokens)[i], fmt::format("tokens[{}]", i), 0,
                                              tokenizer.vocab()->size() - 1));
    ids.push_back(static_cast<TokenId>(id));
  }
  Json out = Json::object();
  out["content"] = tokenizer.decode(ids);
  add_warnings(out, warnings);
  return out;
}

void answer(StatusOr<Json> body, Exchange&& exchange) {
  if (!body.ok()) return exchange.fail(body.status());
  exchange.reply_json(*body);
}

}  // namespace

void Server::Impl::tokenize(Exchange&& exchange) {
  if (!admit(exchange)) return;
  run_text<StatusOr<Json>>(
      std::move(exchange),
      [this](const Exchange& of) { return tokenized(of.request.body, *orders.tokenizer); },
      answer);
}

void Server::Impl::detokenize(Exchange&& exchange) {
  if (!admit(exchange)) return;
  run_text<StatusOr<Json>>(
      std::move(exchange),
      [this](const Exchange& of) { return detokenized(of.request.body, *orders.tokenizer); },
      answer);
}

}  // namespace lineshaft::api
