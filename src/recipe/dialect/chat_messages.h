// The messages of an OpenAI Chat Completions request -> the turns of a Conversation, with the order
// of tool calls and results checked. Knows no other field of the request.
#pragma once

#include "recipe/conversation.h"
#include "recipe/dialect/generation.h"

namespace lineshaft::recipe {

// Reads body.messages. Errors: kInvalidArgument naming the field.
Status read_chat_messages(Fields& body, const DialectLimits& limits, Warnings& warnings,
                          Conversation& conversation);

}  // namespace lineshaft::recipe
