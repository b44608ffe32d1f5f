#include "lineshaft/recipe_setup.h"

#include <chrono>
#include <string>

#include "lineshaft/wiring.h"
#include "recipe/dialect/anthropic_messages.h"
#include "recipe/dialect/openai_responses.h"

namespace lineshaft::app {

namespace {

StatusOr<recipe::ChatFormat> open_format(
    const Config& config, const std::shared_ptr<const recipe::Tokenizer>& tokenizer) {
  const std::string& encoding = config.recipe.encoding;
  if (!encoding.empty() && encoding != "template") {
    return recipe::chat_format_by_name(encoding, tokenizer);
  }
  if (encoding == "template" && config.model.chat_template.empty()) {
    return invalid_argument("--encoding template needs --template FILE");
  }
  if (!config.model.tokenizer.empty() && config.model.chat_template.empty()) {
    return invalid_argument("--encoding is missing: --tokenizer alone doesn't say the form of "
                            "prompts");
  }
  LS_ASSIGN_OR_RETURN(const std::string text, open_chat_template(config));
  return recipe::chat_format_of_template(tokenizer, text, "the model", [] {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  });
}

}  // namespace

StatusOr<RecipeSetup> open_recipe(const Config& config) {
  const RecipeConfig& options = config.recipe;
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
  LS_ASSIGN_OR_RETURN(setup.format, open_format(config, setup.tokenizer));
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
