// Anthropic Messages: the body of a request -> Conversation and GenerationOrder. Source:
// Anthropic's API reference; sentences about blocks are those of DeepSeek's API.
#pragma once

#include "recipe/dialect/openai_chat.h"

namespace lineshaft::recipe {

// kInvalidArgument with the path of the field (base/status.h, field_of).
StatusOr<ChatOrder> parse_anthropic_messages(const Json& body, const DialectLimits& limits);

}  // namespace lineshaft::recipe
