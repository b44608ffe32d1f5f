// Whether and how long to reason, as all dialects say it. Knows no model.
#pragma once

#include <string>
#include <string_view>

#include "recipe/conversation.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::recipe {

// What a request says; "" for what it doesn't.
struct ThinkingRequest {
  std::string type;    // enabled, adaptive or disabled
  std::string effort;  // none, minimal, low, medium, high, xhigh, ultra or max
  std::string_view effort_path;
};

// Reads the object `thinking` (DeepSeek, Anthropic). Errors: kInvalidArgument naming the field.
Status read_thinking_field(Fields& body, bool strict, Warnings& warnings, ThinkingRequest& wanted);

// The type wins over the effort; an effort without a type turns reasoning on, "none" off.
Status set_thinking(const ThinkingRequest& wanted, bool on_unless_told, Conversation& conversation);

}  // namespace lineshaft::recipe
