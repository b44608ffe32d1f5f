#include "api/constraint_gate.h"

#include <string_view>

#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kWhy =
    "needs structured output, which this server does not have yet: it would not be kept";

std::string_view format_field(Dialect dialect) {
  switch (dialect) {
    case Dialect::kMessages: return "output_config.format";
    case Dialect::kResponses: return "text.format";
    case Dialect::kChat:
    case Dialect::kCompletions: break;
  }
  return "response_format";
}

}  // namespace

Status check_constraints(Dialect dialect, const recipe::Conversation& conversation) {
  if (conversation.response_format != recipe::ResponseFormat::kText) {
    return recipe::field_error(format_field(dialect), "{}", kWhy);
  }
  if (conversation.tool_choice == recipe::ToolChoice::kRequired) {
    return recipe::field_error("tool_choice", "that requires a call {}", kWhy);
  }
  const std::string_view inner = dialect == Dialect::kChat ? "function.strict" : "strict";
  for (size_t i = 0; i < conversation.tools.size(); ++i) {
    if (!conversation.tools[i].strict) continue;
    return recipe::field_error(fmt::format("tools[{}].{}", i, inner), "{}", kWhy);
  }
  return ok_status();
}

}  // namespace lineshaft::api
