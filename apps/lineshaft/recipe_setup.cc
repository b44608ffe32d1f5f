#include "lineshaft/recipe_setup.h"

#include <string>

#include "lineshaft/wiring.h"
#include "recipe/dialect/anthropic_messages.h"
#include "recipe/dialect/openai_responses.h"

namespace lineshaft::app {

StatusOr<RecipeSetup> open_recipe(const Config& config) {
  const RecipeConfig& options = config.recipe;
  if (options.encoding.empty()) return invalid_argument("--encoding is missing");
  if (config.model.tokenizer.empty() && config.model.model.empty()) {
    return invalid_argument("--tokenizer is missing: give a tokenizer.json");
  }
  RecipeSetup setup;
  if (options.dialect == "chat") {
    setup.parse = recipe::parse_openai_chat;
  } else if (options.dialect == "responses") {
    setup.parse = recipe::parse_openai_responses;
  } else if (options.dialect == "messages") {
    setup.parse = recipe::parse_anthropic_messages;
  } else {
    return invalid_argument("no dialect is called '{}'; there are chat, responses and messages",
                            options.dialect);
  }
  LS_ASSIGN_OR_RETURN(setup.tokenizer, open_tokenizer(config));
  LS_ASSIGN_OR_RETURN(setup.format, recipe::model_format(options.encoding, setup.tokenizer));
  setup.limits.vocab = setup.tokenizer->vocab()->size();
  setup.limits.tokens_max = 393216;  // DeepSeek's API has this limit
  setup.limits.abilities = setup.format.abilities;
  return setup;
}

Json error_json(const Status& status) {
  Json error = Json::object();
  error["message"] = std::string(message_of(status));
  error["type"] = "invalid_request_error";
  const std::string field = field_of(status);
  error["param"] = field.empty() ? Json() : Json(field);
  error["code"] = "invalid_request_error";
  Json reply = Json::object();
  reply["error"] = std::move(error);
  return reply;
}

}  // namespace lineshaft::app
