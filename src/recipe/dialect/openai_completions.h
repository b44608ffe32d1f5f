// OpenAI Completions: the body of a request -> prompts and GenerationOrder.
// Source: the OpenAI API reference; the table of fields is in docs/api.md.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/ids.h"
#include "recipe/dialect/generation.h"

namespace lineshaft::recipe {

// Text to encode, or tokens as they are (not empty, inside the vocabulary).
using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;

struct CompletionsOrder {
  GenerationOrder generation;             // max_tokens is set: 16 when not given, as OpenAI has it
  std::vector<CompletionPrompt> prompts;  // at least one
  std::optional<std::string> suffix;      // what comes after the answer; the prompts are texts then
  bool echo = false;                      // the answer begins with the prompt's text
};

// kInvalidArgument with the path of the field (base/status.h, field_of).
StatusOr<CompletionsOrder> parse_openai_completions(const Json& body, const DialectLimits& limits);

}  // namespace lineshaft::recipe
