// What every dialect's tools and answer schemas have in common: rules for names and schemas, the
// choice of one tool. Sentences about them are those of DeepSeek's API. Knows no dialect.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "recipe/conversation.h"

namespace lineshaft::recipe {

// kInvalidArgument about the field `path`, the sentence being all of the message.
template <typename... Args>
Status request_error(std::string_view path, fmt::format_string<Args...> format, Args&&... args) {
  return with_field(invalid_argument(format, std::forward<Args>(args)...), path);
}

// A tool's name holds 1 to 128 of A-Z a-z 0-9 _ -.
Status check_tool_name(std::string_view name, std::string_view path);

// Sets tool.parameters from the schema of the request (nullptr when there is none): that of an
// object, its keywords of the types that JSON Schema gives them; in the canonical form of strict
// schemas when tool.strict is set.
Status read_tool_schema(const Json* schema, std::string_view path, Tool& tool);

// The schema of an answer. Must be a schema; of an object when `strict`.
Status check_answer_schema(const Json& schema, bool strict, std::string_view path);

// Names are unique; strict tools are not mixed with others, nor with a form for the answer.
Status check_tools(const Conversation& conversation);

// From here on the one tool of that name is there, and must be called.
Status require_tool(Conversation& conversation, std::string_view name);

// Whether any turn holds the word json, in any case: what a JSON answer needs to be told.
bool mentions_json(const Conversation& conversation);

}  // namespace lineshaft::recipe
