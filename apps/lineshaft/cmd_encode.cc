// lineshaft encode: requests in a dialect to the prompts that a model is given.
#include <fmt/format.h>

#include <iostream>

#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/recipe_setup.h"

namespace lineshaft::app {
namespace {

// What one request line gives: pieces and ids.
StatusOr<Json> encoded(const RecipeSetup& setup, const std::string& line) {
  LS_ASSIGN_OR_RETURN(const Json request, parse_json(line));
  LS_ASSIGN_OR_RETURN(const recipe::ChatOrder order, setup.read(request));
  LS_ASSIGN_OR_RETURN(const auto pieces, setup.format.encoder->pieces(order.conversation));
  LS_ASSIGN_OR_RETURN(const auto ids, recipe::encode_pieces(pieces, *setup.tokenizer));
  Json reply = Json::object();
  reply["token_ids"] = ids;
  reply["text_pieces"] = Json::array();
  for (const recipe::Piece& piece : pieces) {
    reply["text_pieces"].push_back(
        Json::array({piece.control ? "special" : "plain", piece.text}));
  }
  return reply;
}

// One piece a line, for people.
void print_pieces(const Json& reply) {
  for (const Json& piece : reply["text_pieces"]) {
    fmt::print("{:<8}{}\n", piece[0].get<std::string>(), write_json(piece[1]));
  }
  fmt::print("{} tokens\n\n", reply["token_ids"].size());
}

}  // namespace

int run_encode(const Config& config) {
  const auto setup = open_recipe(config);
  if (!setup.ok()) return fail_load(setup.status());
  bool all_good = true;
  const Status status = for_each_line(std::cin, [&](const std::string& line) -> Status {
    const auto reply = encoded(*setup, line);
    all_good = all_good && reply.ok();
    if (config.common.json) {
      print_json(reply.ok() ? *reply : error_json(reply.status()));
    } else if (reply.ok()) {
      print_pieces(*reply);
    } else {
      fmt::print("error: {}\n\n", message_of(reply.status()));
    }
    return ok_status();
  });
  if (!status.ok()) return fail(kWrongUse, status);
  return config.common.json || all_good ? kOk : kFailed;
}

}  // namespace lineshaft::app
