// RecipeSetup: what encode and decode work with: a tokenizer, a model's format, a dialect.
#pragma once

#include <memory>

#include "base/json.h"
#include "base/status.h"
#include "lineshaft/config.h"
#include "recipe/chat_format.h"
#include "recipe/dialect/openai_chat.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::app {

struct RecipeSetup {
  std::shared_ptr<const recipe::Tokenizer> tokenizer;
  recipe::ChatFormat format;
  recipe::DialectLimits limits;

  // Reads a request of the dialect.
  StatusOr<recipe::ChatOrder> (*parse)(const Json&, const recipe::DialectLimits&) = nullptr;

  StatusOr<recipe::ChatOrder> read(const Json& request) const { return parse(request, limits); }
};

// From --encoding, --template, --tokenizer, --model and --dialect: a native encoding by its name,
// or the template of a file or of the model. kInvalidArgument: one is missing or not known.
StatusOr<RecipeSetup> open_recipe(const Config& config);

// {"error": {...}} in the dialect's shape.
Json error_json(const Status& status);

}  // namespace lineshaft::app
