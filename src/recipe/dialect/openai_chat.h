// OpenAI Chat Completions: the body of a request -> Conversation and GenerationOrder.
// Source: the OpenAI API reference; the table of fields is in docs/api.md.
#pragma once

#include "recipe/conversation.h"
#include "recipe/dialect/generation.h"

namespace lineshaft::recipe {

struct ChatOrder {
  GenerationOrder generation;
  Conversation conversation;  // at least one turn
};

// kInvalidArgument with the path of the field (base/status.h, field_of).
StatusOr<ChatOrder> parse_openai_chat(const Json& body, const DialectLimits& limits);

}  // namespace lineshaft::recipe
