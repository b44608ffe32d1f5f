// OpenAI Responses: the body of a request -> Conversation and GenerationOrder. Source: OpenAI's API
// reference. Namespaces of tools, custom tools and stored responses are still to come: refused.
#pragma once

#include "recipe/dialect/openai_chat.h"

namespace lineshaft::recipe {

// kInvalidArgument with the path of the field (base/status.h, field_of).
StatusOr<ChatOrder> parse_openai_responses(const Json& body, const DialectLimits& limits);

}  // namespace lineshaft::recipe
