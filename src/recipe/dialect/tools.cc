#include "recipe/dialect/tools.h"

#include <algorithm>
#include <unordered_set>

#include "recipe/dialect/fields.h"
#include "recipe/dialect/json_schema.h"

namespace lineshaft::recipe {
namespace {

constexpr size_t kNameMax = 128;

bool is_object_schema(const Json& schema) {
  return schema.is_object() && schema.contains("type") && schema["type"] == "object";
}

}  // namespace

Status check_tool_name(std::string_view name, std::string_view path) {
  if (name.empty()) {
    return request_error(path, "Invalid '{}': empty string. Expected a string with minimum length "
                         "1, but got an empty string instead.", path);
  }
  const bool fits = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '-';
  });
  if (!fits) {
    return request_error(path, "Invalid '{}': string does not match pattern. Expected a string "
                         "that matches the pattern '^[a-zA-Z0-9_-]+$'.", path);
  }
  if (name.size() > kNameMax) {
    return request_error(path, "Invalid '{}': string too long. Expected a string with maximum "
                         "length {}, but got a string with length {} instead.", path, kNameMax,
                         name.size());
  }
  return ok_status();
}

Status read_tool_schema(const Json* schema, std::string_view path, Tool& tool) {
  const Json empty = {{"type", "object"}};
  if (schema == nullptr) {
    if (tool.strict) {
      LS_ASSIGN_OR_RETURN(tool.parameters, strict_schema(empty, "tool parameters schema"));
    }
    return ok_status();
  }
  const Status checked = check_schema(*schema);
  if (!checked.ok()) {
    return request_error(path, "Invalid schema for function '{}': {}", shown(tool.name),
                         message_of(checked));
  }
  if (tool.strict) {
    auto strict = strict_schema(*schema, "tool parameters schema");
    if (!strict.ok()) return with_field(strict.status(), path);
    if (!is_object_schema(*strict)) {
      return request_error(path,
                           "The top level of the function parameters schema must be an object.");
    }
    tool.parameters = *std::move(strict);
    return ok_status();
  }
  if (!is_object_schema(*schema)) {
    const bool typed = schema->is_object() && schema->contains("type");
    return request_error(path, "Invalid schema for function '{}': schema must be a JSON Schema of "
                         "'type: \"object\"', got 'type: {}'.", shown(tool.name),
                         typed ? write_json((*schema)["type"]) : "null");
  }
  tool.parameters = *schema;
  return ok_status();
}

Status check_answer_schema(const Json& schema, bool strict, std::string_view path) {
  const Status checked = check_schema(schema);
  if (!checked.ok()) {
    return request_error(path, "Invalid json schema: {}", message_of(checked));
  }
  if (!strict) return ok_status();
  const auto canonical = strict_schema(schema, "json schema");
  if (!canonical.ok()) return with_field(canonical.status(), path);
  if (!is_object_schema(*canonical)) {
    return request_error(path, "The top level of the json schema must be an object.");
  }
  if ((*canonical)["properties"].empty()) {
    return request_error(path, "An object with no properties is not allowed.");
  }
  return ok_status();
}

Status check_tools(const Conversation& conversation) {
  std::unordered_set<std::string_view> names;
  size_t strict = 0;
  for (const Tool& tool : conversation.tools) {
    if (!names.insert(tool.name).second) {
      return request_error("tools", "Tool names must be unique.");
    }
    strict += tool.strict;
  }
  if (strict == 0) return ok_status();
  if (strict != conversation.tools.size()) {
    return request_error("tools",
                         "Cannot use strict tool with non-strict tool in the same request");
  }
  if (conversation.response_format != ResponseFormat::kText) {
    return request_error("response_format", "response_format should not be used with tools");
  }
  return ok_status();
}

Status require_tool(Conversation& conversation, std::string_view name) {
  auto& tools = conversation.tools;
  const auto found = std::find_if(tools.begin(), tools.end(),
                                  [&](const Tool& tool) { return tool.name == name; });
  if (found == tools.end()) {
    return request_error("tool_choice", "Invalid value for 'tool_call': no function named '{}' was "
                         "specified in the 'tools' parameter.", shown(name));
  }
  Tool tool = std::move(*found);
  tools.clear();
  tools.push_back(std::move(tool));
  conversation.tool_choice = ToolChoice::kRequired;
  return ok_status();
}

bool mentions_json(const Conversation& conversation) {
  constexpr std::string_view kWord = "json";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; };
  return std::any_of(conversation.turns.begin(), conversation.turns.end(), [&](const Turn& turn) {
    return std::search(turn.content.begin(), turn.content.end(), kWord.begin(), kWord.end(),
                       same) != turn.content.end();
  });
}

}  // namespace lineshaft::recipe
