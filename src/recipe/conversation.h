// Conversation: a dialogue as every dialect and every model's encoding sees it. Plain data; knows
// neither a dialect nor tokens. Every string in it came from outside: no encoding may let one
// become a control token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace lineshaft::recipe {

enum class Role : uint8_t {
  kSystem,     // instructions for the whole dialogue, wherever they stand
  kUser,
  kAssistant,
  kTool,       // what a tool call gave
  kDeveloper,  // instructions that hold from their place on (OpenAI Responses)
  kNotice,     // a system turn inside the dialogue (Anthropic Messages)
  kReminder,   // facts of the moment, such as the date (DeepSeek)
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the model or the client wrote them: meant to be a JSON object
};

struct Tool {
  std::string name;
  std::string description;
  Json parameters = Json::object();  // JSON Schema
  bool strict = false;               // calls must fit the schema
  bool deferred = false;             // may be called only once a turn brings it as a new tool
};

struct Turn {
  Role role = Role::kUser;
  std::string content = {};             // UTF-8 text, whatever it spells
  bool has_content = true;              // false: calls and no more, or a system message of nothing
  std::vector<size_t> images = {};      // where in content an image stands, in bytes, ascending
  std::string reasoning = {};           // of an assistant
  std::vector<ToolCall> calls = {};     // of an assistant
  std::string call_id = {};             // of a tool: the call it answers
  std::vector<Tool> new_tools = {};     // tools that may be called from here on
  bool unfinished = false;              // the last assistant turn: the answer continues it
};

enum class ToolChoice : uint8_t { kAuto, kNone, kRequired };
enum class ResponseFormat : uint8_t { kText, kJsonObject, kJsonSchema };
enum class Effort : uint8_t { kLow, kHigh, kExtraHigh, kMax };

struct Conversation {
  std::vector<Turn> turns = {};
  std::vector<Tool> tools = {};  // when one is required by name, that one alone
  ToolChoice tool_choice = ToolChoice::kAuto;
  bool parallel_calls = true;
  ResponseFormat response_format = ResponseFormat::kText;
  Json response_schema = Json::object();  // of kJsonSchema
  bool thinking = false;                  // reason before the answer, where the model can
  Effort effort = Effort::kHigh;
};

// Whether the model is told of tools.
inline bool offers_tools(const Conversation& conversation) {
  return !conversation.tools.empty() && conversation.tool_choice != ToolChoice::kNone;
}

}  // namespace lineshaft::recipe
