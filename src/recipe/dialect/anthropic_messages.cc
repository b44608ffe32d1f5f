#include "recipe/dialect/anthropic_messages.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "recipe/dialect/images.h"
#include "recipe/dialect/thinking.h"
#include "recipe/dialect/tools.h"

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kWithoutResult =
    "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` "
    "block must have a corresponding `tool_result` block in the next message.";

bool has_prefix_in_any_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(), [](char want, char is) {
           return want == (is >= 'A' && is <= 'Z' ? is + 32 : is);
         });
}

void add_paragraph(std::string& text, std::string_view more, bool first) {
  if (!first) text += "\n\n";
  text += more;
}

// Reads messages[] into turns.
class MessagesReader {
 public:
  MessagesReader(const DialectLimits& limits, Warnings& warnings, Conversation& conversation)
      : limits_(limits), warnings_(warnings), conversation_(conversation) {}

  Status read(const Json& messages);

 private:
  // A message as its blocks are read: results first, then what is said.
  struct Message {
    size_t index = 0;
    Turn turn;
    std::vector<Turn> results;
    std::vector<Tool> new_tools;
    bool any_text = false;
    bool any_thought = false;
  };

  Status read_message(const Json& value, size_t index);
  Status read_role(Fields& fields, Turn& turn);
  Status read_block(const Json& value, size_t place, Message& message);
  Status read_typed_block(Fields& block, std::string_view type, size_t place, Message& message);
  Status read_text(Fields& block, Message& message);
  Status read_thinking(Fields& block, Message& message);
  Status read_image(Fields& block, size_t place, Message& message);
  Status read_document(Fields& block, Message& message);
  Status read_tool_use(Fields& block, size_t place, Message& message);
  Status read_tool_result(Fields& block, size_t place, Message& message);
  Status read_result_part(const Json& value, const std::string& path, bool first,
                          Message& message, Turn& result);
  Status read_new_tool(const Json* reference, const std::string& path, std::string_view key,
                       Message& message, std::string* name_out);
  Status check_results(const Message& message);
  void add(Message message);

  const DialectLimits& limits_;
  Warnings& warnings_;
  Conversation& conversation_;
  std::vector<std::string> open_;  // calls of the message before, not yet answered
  size_t caller_ = 0;
};

Status MessagesReader::read_role(Fields& fields, Turn& turn) {
  std::string role;
  const std::string path = fields.path_of("role");
  if (fields.take("role") == nullptr) return field_error(path, "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("role", role));
  if (role == "user") {
    turn.role = Role::kUser;
  } else if (role == "assistant") {
    turn.role = Role::kAssistant;
  } else if (role == "system") {
    turn.role = Role::kNotice;
  } else {
    return field_error(path, "must be user, assistant or system, not '{}'", shown(role));
  }
  return ok_status();
}

Status MessagesReader::read_text(Fields& block, Message& message) {
  std::string text;
  if (block.take("text") == nullptr) return field_error(block.path_of("text"), "is missing");
  LS_RETURN_IF_ERROR(block.read_string("text", text));
  LS_RETURN_IF_ERROR(block.ignore("citations", kArray, "they are not part of a prompt"));
  if (!message.turn.calls.empty()) {
    return request_error(block.path_of("text"), "messages.{}.{}: {}", message.index,
                         message.turn.calls.size(),
                         fmt::format(kWithoutResult, shown(message.turn.calls.back().id)));
  }
  add_paragraph(message.turn.content, text, !std::exchange(message.any_text, true));
  return ok_status();
}

Status MessagesReader::read_thinking(Fields& block, Message& message) {
  if (message.turn.role != Role::kAssistant) {
    return request_error(block.path_of("type"), "messages.{}.content: thinking blocks may only be "
                         "in `assistant` messages", message.index);
  }
  std::string text;
  if (block.take("thinking") == nullptr) {
    return field_error(block.path_of("thinking"), "is missing");
  }
  LS_RETURN_IF_ERROR(block.read_string("thinking", text));
  LS_RETURN_IF_ERROR(block.ignore("signature", kString, "reasoning is not signed"));
  add_paragraph(message.turn.reasoning, text, !std::exchange(message.any_thought, true));
  return ok_status();
}

Status MessagesReader::read_image(Fields& block, size_t place, Message& message) {
  const Json* source = block.take("source");
  const std::string path = block.path_of("source");
  if (source == nullptr || !source->is_object()) return field_error(path, "must be an object");
  if (limits_.abilities.images == Abilities::Images::kRefused) {
    return field_error(block.path_of("type"), "'image' is not supported: this model reads text "
                       "only");
  }
  const bool seen = limits_.abilities.images == Abilities::Images::kSeen;
  if (seen && message.turn.role == Role::kAssistant) {
    return request_error(path, "Image in assistant message is unsupported");
  }
  Fields about(*source, path, warnings_);
  std::string type, media, data, url;
  LS_RETURN_IF_ERROR(about.read_string("type", type));
  LS_RETURN_IF_ERROR(about.read_string("media_type", media));
  LS_RETURN_IF_ERROR(about.read_string("data", data));
  LS_RETURN_IF_ERROR(about.read_string("url", url));
  LS_RETURN_IF_ERROR(about.ignore("file_id", kString, "files are not kept"));
  LS_RETURN_IF_ERROR(about.finish(limits_.strict));
  const std::string where = fmt::format("messages.{}.content[{}]", message.index, place);
  if (type == "base64") {
    if (media != "image/jpeg" && media != "image/jpg" && media != "image/png" &&
        media != "image/gif" && media != "image/webp") {
      return field_error(about.path_of("media_type"), "must be image/jpeg, image/png, image/gif or "
                         "image/webp, not '{}'", shown(media));
    }
    if (seen && !is_base64(data)) {
      return request_error(about.path_of("data"), "{}: base64 decode error", where);
    }
  } else if (type == "url") {
    if (seen) LS_RETURN_IF_ERROR(check_image_url(url, where));
  } else if (type != "file") {
    return field_error(about.path_of("type"), "must be base64 or url, not '{}'", shown(type));
  } else if (seen) {
    return request_error(about.path_of("type"), "{}: file_id is not supported. Pass the image as a "
                         "base64 data url instead.", where);
  }
  add_paragraph(message.turn.content, "", !std::exchange(message.any_text, true));
  message.turn.images.push_back(message.turn.content.size());
  return ok_status();
}

Status MessagesReader::read_document(Fields& block, Message& message) {
  const Json* source = block.take("source");
  if (source == nullptr || !source->is_object()) {
    return field_error(block.path_of("source"), "must be an object");
  }
  for (const std::string_view key : {"title", "context"}) {
    LS_RETURN_IF_ERROR(block.ignore(key, kString, "documents are not read"));
  }
  LS_RETURN_IF_ERROR(block.ignore("citations", kObject, "documents are not read"));
  std::string type = "unknown";
  for (const char* key : {"type", "media_type"}) {
    const auto found = source->find(key);
    if (found != source->end() && found->is_string()) type = found->get<std::string>();
  }
  add_paragraph(message.turn.content, fmt::format("[Unsupported document type: {}]", type),
                !std::exchange(message.any_text, true));
  return ok_status();
}

Status MessagesReader::read_tool_use(Fields& block, size_t place, Message& message) {
  if (message.turn.role != Role::kAssistant) {
    return request_error(block.path_of("type"), "messages.{}: `tool_use` blocks can only be in "
                         "`assistant` messages", message.index);
  }
  ToolCall call;
  if (block.take("id") == nullptr) return field_error(block.path_of("id"), "is missing");
  LS_RETURN_IF_ERROR(block.read_string("id", call.id));
  if (block.take("name") == nullptr) return field_error(block.path_of("name"), "is missing");
  LS_RETURN_IF_ERROR(block.read_string("name", call.name));
  const Json* input = block.take("input");
  if (input == nullptr || !input->is_object()) {
    return field_error(block.path_of("input"), "must be an object");
  }
  call.arguments = write_json(*input);
  for (const ToolCall& other : message.turn.calls) {
    if (other.id == call.id) {
      return request_error(block.path_of("id"), "messages.{}.content.{}: `tool_use` ids must be "
                           "unique", message.index, place);
    }
  }
  message.turn.calls.push_back(std::move(call));
  return ok_status();
}

// A tool that was deferred, by its name.
Status MessagesReader::read_new_tool(const Json* reference, const std::string& path,
                                     std::string_view key, Message& message,
                                     std::string* name_out) {
  std::string name;
  if (reference != nullptr && reference->is_object()) {
    const auto found = reference->find(std::string(key));
    if (found != reference->end() && found->is_string()) name = found->get<std::string>();
  }
  if (name.empty()) return field_error(path, "must name a tool in '{}'", key);
  for (const Tool& tool : conversation_.tools) {
    if (tool.name == name && tool.deferred) message.new_tools.push_back(tool);
  }
  if (name_out != nullptr) *name_out = std::move(name);
  return ok_status();
}

Status MessagesReader::read_result_part(const Json& value, const std::string& path, bool first,
                                        Message& message, Turn& result) {
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields part(value, path, warnings_);
  std::string type;
  LS_RETURN_IF_ERROR(part.read_string("type", type));
  LS_RETURN_IF_ERROR(part.ignore("cache_control", kObject, "prefixes are always reused"));
  Message inner;
  inner.index = message.index;
  if (type == "text") {
    LS_RETURN_IF_ERROR(read_text(part, inner));
  } else if (type == "image") {
    LS_RETURN_IF_ERROR(read_image(part, 0, inner));
  } else if (type == "document") {
    LS_RETURN_IF_ERROR(read_document(part, inner));
  } else if (type == "tool_reference") {
    std::string name;
    part.take("tool_name");
    LS_RETURN_IF_ERROR(read_new_tool(&value, path, "tool_name", message, &name));
    inner.turn.content = name;
  } else {
    return field_error(path + ".type", "'{}' is not known", shown(type));
  }
  add_paragraph(result.content, "", first);
  for (const size_t at : inner.turn.images) result.images.push_back(result.content.size() + at);
  result.content += inner.turn.content;
  return part.finish(limits_.strict);
}

Status MessagesReader::read_tool_result(Fields& block, size_t place, Message& message) {
  if (message.turn.role != Role::kUser) {
    return request_error(block.path_of("type"), "messages.{}: `tool_result` blocks can only be in "
                         "`user` messages", message.index);
  }
  Turn result;
  result.role = Role::kTool;
  const std::string id_path = block.path_of("tool_use_id");
  if (block.take("tool_use_id") == nullptr) return field_error(id_path, "is missing");
  LS_RETURN_IF_ERROR(block.read_string("tool_use_id", result.call_id));
  LS_RETURN_IF_ERROR(block.ignore("is_error", kBool, "the model reads it in the content"));
  for (const Turn& other : message.results) {
    if (other.call_id == result.call_id) {
      return request_error(id_path, "messages.{}.content.{}: each tool_use must have a single "
                           "result. Found multiple `tool_result` blocks with id: {}",
                           message.index, place, shown(result.call_id));
    }
  }
  if (message.any_text && !open_.empty()) {
    return request_error(id_path, "messages.{}: {}", message.index,
                         fmt::format(kWithoutResult, shown(open_.front())));
  }
  const auto call = std::find(open_.begin(), open_.end(), result.call_id);
  if (call == open_.end()) {
    return request_error(id_path, "unexpected `messages.{}.content.{}: tool_use_id` found in "
                         "`tool_result` blocks: {}. Each `tool_result` block must have a "
                         "corresponding `tool_use` block in the previous message.",
                         message.index, place, shown(result.call_id));
  }
  open_.erase(call);
  const Json* content = block.take("content");
  if (content != nullptr && content->is_string()) {
    result.content = content->get<std::string>();
  } else if (content != nullptr && content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      LS_RETURN_IF_ERROR(read_result_part((*content)[i],
                                          fmt::format("{}[{}]", block.path_of("content"), i),
                                          i == 0, message, result));
    }
  } else if (content != nullptr) {
    return field_error(block.path_of("content"), "must be a string or an array of blocks");
  }
  message.results.push_back(std::move(result));
  return ok_status();
}

Status MessagesReader::read_typed_block(Fields& block, std::string_view type, size_t place,
                                        Message& message) {
  if (type == "text") return read_text(block, message);
  if (type == "thinking") return read_thinking(block, message);
  if (type == "image") return read_image(block, place, message);
  if (type == "document") return read_document(block, message);
  if (type == "tool_use") return read_tool_use(block, place, message);
  if (type == "tool_result") return read_tool_result(block, place, message);
  if (type == "tool_addition" && message.turn.role == Role::kNotice) {
    return read_new_tool(block.take("tool"), block.path_of("tool"), "name", message, nullptr);
  }
  if (type == "redacted_thinking" || type == "server_tool_use" ||
      type == "web_search_tool_result") {
    for (const std::string_view key : {"data", "id", "name", "tool_use_id"}) block.take(key);
    block.take("input");
    block.take("content");
    warnings_.add(fmt::format("'{}' is left out: the model has no form for {}",
                              block.path_of("type"), type));
    return ok_status();
  }
  return field_error(block.path_of("type"), "'{}' is not known", shown(type));
}

Status MessagesReader::read_block(const Json& value, size_t place, Message& message) {
  const std::string path = fmt::format("messages[{}].content[{}]", message.index, place);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields block(value, path, warnings_);
  std::string type;
  if (block.take("type") == nullptr) return field_error(path + ".type", "is missing");
  LS_RETURN_IF_ERROR(block.read_string("type", type));
  LS_RETURN_IF_ERROR(block.ignore("cache_control", kObject, "prefixes are always reused"));
  LS_RETURN_IF_ERROR(read_typed_block(block, type, place, message));
  return block.finish(limits_.strict);
}

// Every call of the message before has its result in this one.
Status MessagesReader::check_results(const Message& message) {
  if (open_.empty()) return ok_status();
  const std::string path = fmt::format("messages[{}]", message.index);
  if (message.results.empty()) {
    return request_error(path, "messages.{}: {}", message.index,
                         fmt::format(kWithoutResult, shown(open_.front())));
  }
  return request_error(path, "messages.{}:{}", caller_,
                       fmt::format(kWithoutResult, shown(open_.front())));
}

// Results, then the tools that they brought, then what was said.
void MessagesReader::add(Message message) {
  auto& turns = conversation_.turns;
  const bool says = message.any_text || message.results.empty();
  for (Turn& result : message.results) turns.push_back(std::move(result));
  if (message.turn.role == Role::kNotice) {
    message.turn.new_tools = std::move(message.new_tools);
  } else if (!message.new_tools.empty()) {
    Turn notice;
    notice.role = Role::kNotice;
    notice.new_tools = std::move(message.new_tools);
    turns.push_back(std::move(notice));
  }
  for (const ToolCall& call : message.turn.calls) open_.push_back(call.id);
  if (!open_.empty()) caller_ = message.index;
  if (says) turns.push_back(std::move(message.turn));
}

Status MessagesReader::read_message(const Json& value, size_t index) {
  const std::string path = fmt::format("messages[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields fields(value, path, warnings_);
  Message message;
  message.index = index;
  LS_RETURN_IF_ERROR(read_role(fields, message.turn));
  const Json* content = fields.take("content");
  if (content == nullptr) return field_error(fields.path_of("content"), "is missing");
  if (content->is_string()) {
    message.turn.content = content->get<std::string>();
    message.any_text = true;
  } else if (!content->is_array()) {
    return field_error(fields.path_of("content"), "must be a string or an array of blocks");
  } else if (content->empty()) {
    return request_error(fields.path_of("content"),
                         "messages.{}: all messages must have non-empty content", index);
  } else {
    for (size_t i = 0; i < content->size(); ++i) {
      LS_RETURN_IF_ERROR(read_block((*content)[i], i, message));
    }
  }
  LS_RETURN_IF_ERROR(check_results(message));
  LS_RETURN_IF_ERROR(fields.finish(limits_.strict));
  add(std::move(message));
  return ok_status();
}

Status MessagesReader::read(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    LS_RETURN_IF_ERROR(read_message(messages[i], i));
  }
  if (open_.empty()) return ok_status();
  return request_error(fmt::format("messages[{}]", caller_), "messages.{}:{}", caller_,
                       fmt::format(kWithoutResult, shown(open_.front())));
}

// The system text, a turn of its own; a client's billing line in block 0 is no instruction.
Status read_system(Fields& body, bool strict, Warnings& warnings, Conversation& conversation) {
  const Json* system = body.take("system");
  if (system == nullptr) return ok_status();
  Turn turn;
  turn.role = Role::kSystem;
  if (system->is_string()) {
    turn.content = system->get<std::string>();
  } else if (!system->is_array()) {
    return field_error("system", "must be a string or an array of text blocks");
  }
  bool first = true;
  for (size_t i = 0; system->is_array() && i < system->size(); ++i) {
    const std::string path = fmt::format("system[{}]", i);
    if (!(*system)[i].is_object()) return field_error(path, "must be an object");
    Fields block((*system)[i], path, warnings);
    std::string type, text;
    LS_RETURN_IF_ERROR(block.read_string("type", type));
    if (type != "text") return field_error(path + ".type", "must be text, not '{}'", shown(type));
    if (block.take("text") == nullptr) return field_error(path + ".text", "is missing");
    LS_RETURN_IF_ERROR(block.read_string("text", text));
    LS_RETURN_IF_ERROR(block.ignore("cache_control", kObject, "prefixes are always reused"));
    LS_RETURN_IF_ERROR(block.finish(strict));
    if (i == 0 && has_prefix_in_any_case(text, "x-anthropic-billing-header")) continue;
    add_paragraph(turn.content, text, std::exchange(first, false));
  }
  conversation.turns.push_back(std::move(turn));
  return ok_status();
}

Status read_tool(const Json& value, size_t index, const DialectLimits& limits, Warnings& warnings,
                 Tool& tool) {
  const std::string path = fmt::format("tools[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields fields(value, path, warnings);
  std::string type = "custom";
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  if (type != "custom") {
    return request_error(path + ".type", "{}: server tools are not supported", path);
  }
  if (fields.take("name") == nullptr) return field_error(fields.path_of("name"), "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("name", tool.name));
  LS_RETURN_IF_ERROR(check_tool_name(tool.name, fields.path_of("name")));
  LS_RETURN_IF_ERROR(fields.read_string("description", tool.description));
  LS_RETURN_IF_ERROR(fields.read_bool("strict", tool.strict));
  LS_RETURN_IF_ERROR(fields.read_bool("defer_loading", tool.deferred));
  LS_RETURN_IF_ERROR(fields.ignore("cache_control", kObject, "prefixes are always reused"));
  LS_RETURN_IF_ERROR(fields.ignore("input_examples", kArray, "the model is not shown them"));
  LS_RETURN_IF_ERROR(
      fields.ignore("eager_input_streaming", kBool, "arguments are always streamed"));
  const Json* schema = fields.take("input_schema");
  if (schema == nullptr) {
    return request_error(fields.path_of("input_schema"), "Invalid schema for function '{}': null "
                         "is not of types \"boolean\", \"object\"", tool.name);
  }
  LS_RETURN_IF_ERROR(read_tool_schema(schema, fields.path_of("input_schema"), tool));
  return fields.finish(limits.strict);
}

Status read_tool_choice(Fields& body, bool strict, Warnings& warnings,
                        Conversation& conversation) {
  const Json* choice = body.take("tool_choice");
  if (choice == nullptr) return ok_status();
  if (!choice->is_object()) return field_error("tool_choice", "must be an object");
  Fields fields(*choice, "tool_choice", warnings);
  std::string type, name;
  bool serial = false;
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  LS_RETURN_IF_ERROR(fields.read_string("name", name));
  LS_RETURN_IF_ERROR(fields.read_bool("disable_parallel_tool_use", serial));
  conversation.parallel_calls = !serial;
  LS_RETURN_IF_ERROR(fields.finish(strict));
  if (type == "auto") return ok_status();
  if (type == "none") {
    conversation.tool_choice = ToolChoice::kNone;
  } else if (type == "any") {
    conversation.tool_choice = ToolChoice::kRequired;
  } else if (type == "tool") {
    return require_tool(conversation, name);
  } else {
    return field_error("tool_choice.type", "must be auto, any, tool or none, not '{}'",
                       shown(type));
  }
  return ok_status();
}

Status read_tools(Fields& body, const DialectLimits& limits, Warnings& warnings,
                  Conversation& conversation) {
  const Json* tools = body.take("tools");
  if (tools != nullptr && !tools->is_array()) return field_error("tools", "must be an array");
  if (tools != nullptr && !tools->empty() && !limits.abilities.tools) {
    return field_error("tools", "is not supported: this model has no form for tools");
  }
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    Tool tool;
    LS_RETURN_IF_ERROR(read_tool((*tools)[i], i, limits, warnings, tool));
    conversation.tools.push_back(std::move(tool));
  }
  LS_RETURN_IF_ERROR(check_tools(conversation));
  const bool all_deferred = !conversation.tools.empty() &&
                            std::all_of(conversation.tools.begin(), conversation.tools.end(),
                                        [](const Tool& tool) { return tool.deferred; });
  if (all_deferred && limits.abilities.deferred_tools) {
    return request_error("tools", "tools: at least one tool must have defer_loading=false. All "
                         "tools cannot be deferred.");
  }
  return ok_status();
}

Status read_output_config(Fields& body, const DialectLimits& limits, Warnings& warnings,
                          Conversation& conversation, ThinkingRequest& wanted) {
  const Json* config = body.take("output_config");
  if (config == nullptr) return ok_status();
  if (!config->is_object()) return field_error("output_config", "must be an object");
  Fields fields(*config, "output_config", warnings);
  LS_RETURN_IF_ERROR(fields.read_string("effort", wanted.effort));
  const Json* format = fields.take("format");
  if (format != nullptr) {
    if (!limits.abilities.answer_forms) {
      return field_error("output_config.format", "is not supported: structured output comes with "
                         "a later release");
    }
    const bool schema = format->is_object() && format->contains("schema") &&
                        format->contains("type") && (*format)["type"] == "json_schema";
    if (!schema) {
      return field_error("output_config.format", "must be an object of type json_schema");
    }
    LS_RETURN_IF_ERROR(
        check_answer_schema((*format)["schema"], false, "output_config.format.schema"));
    conversation.response_format = ResponseFormat::kJsonSchema;
    conversation.response_schema = (*format)["schema"];
  }
  return fields.finish(limits.strict);
}

Status read_stops(Fields& body, const DialectLimits& limits, std::vector<std::string>& out) {
  const Json* stops = body.take("stop_sequences");
  if (stops == nullptr) return ok_status();
  if (!stops->is_array()) return field_error("stop_sequences", "must be an array of strings");
  if (stops->size() > static_cast<size_t>(limits.stops_max)) {
    return request_error("stop_sequences", "Stop string array too long: {}", stops->size());
  }
  for (const Json& stop : *stops) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty()) {
      return field_error("stop_sequences", "must hold strings that are not empty");
    }
    if (stop.get_ref<const std::string&>().size() > static_cast<size_t>(limits.stop_bytes_max)) {
      return field_error("stop_sequences", "holds one longer than {} bytes",
                         limits.stop_bytes_max);
    }
    out.push_back(stop.get<std::string>());
  }
  return ok_status();
}

Status read_sampling(Fields& body, const DialectLimits& limits, GenerationOrder& order) {
  if (body.take("model") == nullptr) return field_error("model", "is missing: name the model");
  LS_RETURN_IF_ERROR(body.read_string("model", order.model));
  SamplingParams& sampling = order.sampling;
  int64_t tokens = 0;
  LS_RETURN_IF_ERROR(body.read_integer("max_tokens", 1, INT64_MAX, tokens));
  sampling.max_tokens = static_cast<int32_t>(std::min<int64_t>(tokens, limits.tokens_max));
  LS_RETURN_IF_ERROR(body.read_number("temperature", 0.0, 2.0, sampling.temperature));
  LS_RETURN_IF_ERROR(body.read_number("top_p", 0.0, 1.0, sampling.top_p));
  if (!(sampling.top_p > 0.0f)) return field_error("top_p", "must be above 0 and at most 1");
  int64_t top_k = 0;
  LS_RETURN_IF_ERROR(
      body.read_integer("top_k", -1, std::numeric_limits<int32_t>::max(), top_k));
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  LS_RETURN_IF_ERROR(read_stops(body, limits, order.stop));
  LS_RETURN_IF_ERROR(body.read_bool("stream", order.stream));
  LS_RETURN_IF_ERROR(body.ignore("metadata", kObject, "nothing is kept about users"));
  LS_RETURN_IF_ERROR(body.ignore("service_tier", kString, "there is one tier"));
  LS_RETURN_IF_ERROR(body.ignore("speed", kString, "there is one speed"));
  LS_RETURN_IF_ERROR(body.ignore("context_management", kObject, "the whole context is kept"));
  return body.ignore("container", kString | kObject, "there are no containers");
}

}  // namespace

StatusOr<ChatOrder> parse_anthropic_messages(const Json& body, const DialectLimits& limits) {
  if (!body.is_object()) {
    return invalid_argument("the body must be a JSON object, not {}", json_type_name(body));
  }
  ChatOrder order;
  Warnings& warnings = order.generation.warnings;
  Conversation& conversation = order.conversation;
  Fields fields(body, "", warnings);
  LS_RETURN_IF_ERROR(read_sampling(fields, limits, order.generation));
  ThinkingRequest wanted;
  wanted.effort_path = "output_config.effort";
  LS_RETURN_IF_ERROR(read_output_config(fields, limits, warnings, conversation, wanted));
  LS_RETURN_IF_ERROR(read_thinking_field(fields, limits.strict, warnings, wanted));
  if (limits.abilities.reasoning) {
    LS_RETURN_IF_ERROR(set_thinking(wanted, limits.abilities.thinks_unless_told, conversation));
  }
  LS_RETURN_IF_ERROR(read_tools(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(read_system(fields, limits.strict, warnings, conversation));
  const Json* messages = fields.take("messages");
  if (messages == nullptr) return field_error("messages", "is missing");
  if (!messages->is_array()) return field_error("messages", "must be an array");
  if (messages->empty()) {
    return request_error("messages", "messages: at least one message is required");
  }
  LS_RETURN_IF_ERROR(MessagesReader(limits, warnings, conversation).read(*messages));
  LS_RETURN_IF_ERROR(read_tool_choice(fields, limits.strict, warnings, conversation));
  LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  return order;
}

}  // namespace lineshaft::recipe
