#include "recipe/dialect/openai_responses.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "recipe/dialect/images.h"
#include "recipe/dialect/thinking.h"
#include "recipe/dialect/tools.h"

namespace lineshaft::recipe {
namespace {

bool is_empty(const Turn& turn) { return turn.content.empty() && turn.images.empty(); }

constexpr std::string_view kToCome = "is not supported: it comes with a later release";

// Reads input[] into turns. Reasoning, a message and calls in a row are one turn of the assistant.
class ItemsReader {
 public:
  ItemsReader(const DialectLimits& limits, Warnings& warnings, Conversation& conversation)
      : limits_(limits), warnings_(warnings), turns_(conversation.turns) {}

  Status read(const Json& items);

 private:
  Status read_item(const Json& value, size_t index);
  Status read_message(Fields& item, size_t index);
  Status read_content(const Json& content, const std::string& path, size_t index, Turn& turn);
  Status read_part(const Json& value, const std::string& path, size_t index, Turn& turn);
  Status read_image(Fields& part, size_t index, Turn& turn);
  Status read_reasoning(Fields& item);
  Status read_call(Fields& item);
  Status read_output(Fields& item, size_t index);
  Status ended_calls() const;
  Turn& assistant();

  const DialectLimits& limits_;
  Warnings& warnings_;
  std::vector<Turn>& turns_;
  bool open_ = false;               // the last turn is an assistant's that may still grow
  std::vector<std::string> calls_;  // of the last calls, those without their output
  std::unordered_set<std::string> seen_calls_;
  std::unordered_set<std::string> seen_outputs_;
};

// The assistant's turn that grows.
Turn& ItemsReader::assistant() {
  if (!open_) {
    Turn turn;
    turn.role = Role::kAssistant;
    turns_.push_back(std::move(turn));
    open_ = true;
  }
  return turns_.back();
}

Status ItemsReader::ended_calls() const {
  if (calls_.empty()) return ok_status();
  return request_error("input", "No tool output found for tool call {}.", shown(calls_.front()));
}

Status ItemsReader::read_image(Fields& part, size_t index, Turn& turn) {
  if (limits_.abilities.images == Abilities::Images::kRefused) {
    return field_error(part.path_of("type"),
                       "'input_image' is not supported: this model reads text only");
  }
  std::string url;
  LS_RETURN_IF_ERROR(part.read_string("image_url", url));
  LS_RETURN_IF_ERROR(part.ignore("detail", kString, "images have one size"));
  LS_RETURN_IF_ERROR(part.ignore("file_id", kString, "files are not kept"));
  if (limits_.abilities.images == Abilities::Images::kSeen) {
    if (turn.role == Role::kAssistant) {
      return request_error(part.path_of("type"), "Image in assistant message is not supported");
    }
    LS_RETURN_IF_ERROR(check_image_url(url, fmt::format("input[{}]", index)));
  }
  turn.images.push_back(turn.content.size());
  return ok_status();
}

Status ItemsReader::read_part(const Json& value, const std::string& path, size_t index,
                              Turn& turn) {
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields part(value, path, warnings_);
  std::string type;
  if (part.take("type") == nullptr) return field_error(path + ".type", "is missing");
  LS_RETURN_IF_ERROR(part.read_string("type", type));
  if (type == "input_text" || type == "output_text" || type == "refusal") {
    const std::string_view key = type == "refusal" ? "refusal" : "text";
    std::string text;
    if (part.take(key) == nullptr) return field_error(part.path_of(key), "is missing");
    LS_RETURN_IF_ERROR(part.read_string(key, text));
    LS_RETURN_IF_ERROR(part.ignore("annotations", kArray, "they are not part of a prompt"));
    LS_RETURN_IF_ERROR(part.ignore("logprobs", kArray, "they are not part of a prompt"));
    turn.content += text;
  } else if (type == "input_image") {
    LS_RETURN_IF_ERROR(read_image(part, index, turn));
  } else if (type == "input_file") {
    for (const std::string_view key : {"file_data", "file_id", "file_url", "filename"}) {
      LS_RETURN_IF_ERROR(part.ignore(key, kString, "files are not read"));
    }
    turn.content += "[Unsupported Document]";
  } else {
    return field_error(path + ".type", "'{}' is not known", shown(type));
  }
  return part.finish(limits_.strict);
}

Status ItemsReader::read_content(const Json& content, const std::string& path, size_t index,
                                 Turn& turn) {
  if (content.is_string()) {
    turn.content += content.get_ref<const std::string&>();
    return ok_status();
  }
  if (!content.is_array()) return field_error(path, "must be a string or an array of parts");
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) turn.content += "\n\n";
    LS_RETURN_IF_ERROR(read_part(content[i], fmt::format("{}[{}]", path, i), index, turn));
  }
  return ok_status();
}

Status ItemsReader::read_message(Fields& item, size_t index) {
  LS_RETURN_IF_ERROR(ended_calls());
  std::string role;
  if (item.take("role") == nullptr) return field_error(item.path_of("role"), "is missing");
  LS_RETURN_IF_ERROR(item.read_string("role", role));
  LS_RETURN_IF_ERROR(item.ignore("id", kString, "items are not stored"));
  LS_RETURN_IF_ERROR(item.ignore("status", kString, "an item is taken as it is"));
  LS_RETURN_IF_ERROR(item.ignore("phase", kString, "the model is not told it"));
  const Json* content = item.take("content");
  if (content == nullptr) return field_error(item.path_of("content"), "is missing");
  if (role == "assistant") {
    Turn words;
    words.role = Role::kAssistant;
    LS_RETURN_IF_ERROR(read_content(*content, item.path_of("content"), index, words));
    Turn& turn = assistant();
    if (!turn.content.empty() && !is_empty(words)) turn.content += "\n\n";
    for (const size_t at : words.images) turn.images.push_back(turn.content.size() + at);
    turn.content += words.content;
    return ok_status();
  }
  Turn turn;
  if (role == "system") {
    turn.role = Role::kSystem;
  } else if (role == "developer") {
    turn.role = Role::kDeveloper;
  } else if (role != "user") {
    return field_error(item.path_of("role"),
                       "must be user, assistant, system or developer, not '{}'", shown(role));
  }
  LS_RETURN_IF_ERROR(read_content(*content, item.path_of("content"), index, turn));
  turns_.push_back(std::move(turn));
  open_ = false;
  return ok_status();
}

Status ItemsReader::read_reasoning(Fields& item) {
  LS_RETURN_IF_ERROR(ended_calls());
  for (const std::string_view key : {"id", "status"}) {
    LS_RETURN_IF_ERROR(item.ignore(key, kString, "items are not stored"));
  }
  LS_RETURN_IF_ERROR(item.ignore("encrypted_content", kString, "reasoning is not encrypted"));
  LS_RETURN_IF_ERROR(item.ignore("summary", kArray, "the reasoning itself is used"));
  const Json* content = item.take("content");
  if (content == nullptr) return ok_status();
  if (!content->is_array()) return field_error(item.path_of("content"), "must be an array");
  std::string reasoning;
  for (const Json& part : *content) {
    const bool text = part.is_object() && part.contains("text") && part["text"].is_string();
    if (!text) return field_error(item.path_of("content"), "must hold parts with a text");
    if (!reasoning.empty()) reasoning += '\n';
    reasoning += part["text"].get_ref<const std::string&>();
  }
  if (reasoning.empty()) return ok_status();
  if (open_ && !turns_.back().content.empty()) open_ = false;
  Turn& turn = assistant();
  if (!turn.reasoning.empty()) turn.reasoning += '\n';
  turn.reasoning += reasoning;
  return ok_status();
}

Status ItemsReader::read_call(Fields& item) {
  ToolCall call;
  for (const auto& [key, out] : {std::pair{"call_id", &call.id}, {"name", &call.name},
                                 {"arguments", &call.arguments}}) {
    if (item.take(key) == nullptr) return field_error(item.path_of(key), "is missing");
    LS_RETURN_IF_ERROR(item.read_string(key, *out));
  }
  for (const std::string_view key : {"id", "status"}) {
    LS_RETURN_IF_ERROR(item.ignore(key, kString, "items are not stored"));
  }
  if (item.take("namespace") != nullptr) {
    return field_error(item.path_of("namespace"), "{}", kToCome);
  }
  if (!seen_calls_.insert(call.id).second) {
    return request_error(item.path_of("call_id"), "Duplicate 'call_id': {}.", shown(call.id));
  }
  calls_.push_back(call.id);
  assistant().calls.push_back(std::move(call));
  return ok_status();
}

Status ItemsReader::read_output(Fields& item, size_t index) {
  Turn turn;
  turn.role = Role::kTool;
  const std::string path = item.path_of("call_id");
  if (item.take("call_id") == nullptr) return field_error(path, "is missing");
  LS_RETURN_IF_ERROR(item.read_string("call_id", turn.call_id));
  for (const std::string_view key : {"id", "status"}) {
    LS_RETURN_IF_ERROR(item.ignore(key, kString, "items are not stored"));
  }
  if (!seen_calls_.contains(turn.call_id)) {
    return request_error(path, "No tool call found for tool output with call_id {}.",
                         shown(turn.call_id));
  }
  if (!seen_outputs_.insert(turn.call_id).second) {
    return request_error(path, "Duplicate tool output for call_id: {}.", shown(turn.call_id));
  }
  std::erase(calls_, turn.call_id);
  if (open_) {
    // The reference shows the calls of a round in the order of their ids.
    auto& calls = turns_.back().calls;
    std::stable_sort(calls.begin(), calls.end(),
                     [](const ToolCall& a, const ToolCall& b) { return a.id < b.id; });
  }
  const Json* output = item.take("output");
  if (output == nullptr) return field_error(item.path_of("output"), "is missing");
  LS_RETURN_IF_ERROR(read_content(*output, item.path_of("output"), index, turn));
  turns_.push_back(std::move(turn));
  open_ = false;
  return ok_status();
}

Status ItemsReader::read_item(const Json& value, size_t index) {
  const std::string path = fmt::format("input[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields item(value, path, warnings_);
  std::string type = "message";
  LS_RETURN_IF_ERROR(item.read_string("type", type));
  if (type == "message") {
    LS_RETURN_IF_ERROR(read_message(item, index));
  } else if (type == "reasoning") {
    LS_RETURN_IF_ERROR(read_reasoning(item));
  } else if (type == "function_call") {
    LS_RETURN_IF_ERROR(read_call(item));
  } else if (type == "function_call_output") {
    LS_RETURN_IF_ERROR(read_output(item, index));
  } else if (type.starts_with("custom_tool_call") || type.starts_with("tool_search")) {
    return field_error(path + ".type", "'{}' {}", shown(type), kToCome);
  } else {
    warnings_.add(fmt::format("'{}' is left out: the model has no form for {}", path,
                              shown(type)));
    return ok_status();
  }
  return item.finish(limits_.strict);
}

Status ItemsReader::read(const Json& items) {
  for (size_t i = 0; i < items.size(); ++i) LS_RETURN_IF_ERROR(read_item(items[i], i));
  return ended_calls();
}

Status read_input(Fields& body, const DialectLimits& limits, Warnings& warnings,
                  Conversation& conversation) {
  std::string instructions;
  LS_RETURN_IF_ERROR(body.read_string("instructions", instructions));
  const Json* input = body.take("input");
  if (!instructions.empty()) {
    conversation.turns.push_back({Role::kSystem, instructions});
  } else if (input == nullptr) {
    return request_error("input", "Either input or instructions must be provided");
  }
  if (input == nullptr) return ok_status();
  if (input->is_string()) {
    conversation.turns.push_back({Role::kUser, input->get<std::string>()});
    return ok_status();
  }
  if (!input->is_array()) return field_error("input", "must be a string or an array of items");
  if (input->empty()) return request_error("input", "Input items array must not be empty");
  return ItemsReader(limits, warnings, conversation).read(*input);
}

Status read_tool(const Json& value, size_t index, const DialectLimits& limits, Warnings& warnings,
                 Conversation& conversation) {
  const std::string path = fmt::format("tools[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields fields(value, path, warnings);
  std::string type;
  if (fields.take("type") == nullptr) return field_error(path + ".type", "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  if (type == "namespace" || type == "custom" || type == "tool_search") {
    return field_error(path + ".type", "'{}' {}", type, kToCome);
  }
  if (type != "function") {
    warnings.add(fmt::format("'{}' is left out: there is no hosted tool '{}'", path, shown(type)));
    return ok_status();
  }
  Tool tool;
  if (fields.take("name") == nullptr) return field_error(fields.path_of("name"), "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("name", tool.name));
  LS_RETURN_IF_ERROR(check_tool_name(tool.name, fields.path_of("name")));
  LS_RETURN_IF_ERROR(fields.read_string("description", tool.description));
  LS_RETURN_IF_ERROR(fields.read_bool("strict", tool.strict));
  LS_RETURN_IF_ERROR(
      read_tool_schema(fields.take("parameters"), fields.path_of("parameters"), tool));
  conversation.tools.push_back(std::move(tool));
  return fields.finish(limits.strict);
}

Status read_tools(Fields& body, const DialectLimits& limits, Warnings& warnings,
                  Conversation& conversation) {
  const Json* tools = body.take("tools");
  if (tools != nullptr && !tools->is_array()) return field_error("tools", "must be an array");
  if (tools != nullptr && !tools->empty() && !limits.abilities.tools) {
    return field_error("tools", "is not supported: this model has no form for tools");
  }
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    LS_RETURN_IF_ERROR(read_tool((*tools)[i], i, limits, warnings, conversation));
  }
  return check_tools(conversation);
}

Status read_tool_choice(Fields& body, Warnings& warnings, Conversation& conversation) {
  LS_RETURN_IF_ERROR(body.read_bool("parallel_tool_calls", conversation.parallel_calls));
  const Json* choice = body.take("tool_choice");
  if (choice == nullptr || *choice == "auto") return ok_status();
  if (*choice == "none" || *choice == "required") {
    conversation.tool_choice = *choice == "none" ? ToolChoice::kNone : ToolChoice::kRequired;
    return ok_status();
  }
  const bool typed = choice->is_object() && choice->contains("type") &&
                     (*choice)["type"].is_string();
  if (!typed) {
    return field_error("tool_choice", "must be none, auto, required or an object with a type");
  }
  const std::string type = (*choice)["type"].get<std::string>();
  if (type == "function" && choice->contains("name") && (*choice)["name"].is_string()) {
    return require_tool(conversation, (*choice)["name"].get_ref<const std::string&>());
  }
  if (type.starts_with("web_search")) {
    warnings.add("'tool_choice' is left out: there is no hosted tool");
    return ok_status();
  }
  return field_error("tool_choice.type", "'{}' {}", shown(type), kToCome);
}

// text.format and what else stands in `text`.
Status read_text(Fields& body, const DialectLimits& limits, Warnings& warnings,
                 Conversation& conversation) {
  const Json* text = body.take("text");
  if (text == nullptr) return ok_status();
  if (!text->is_object()) return field_error("text", "must be an object");
  Fields about(*text, "text", warnings);
  LS_RETURN_IF_ERROR(about.ignore("verbosity", kString, "this model was not taught it"));
  const Json* format = about.take("format");
  LS_RETURN_IF_ERROR(about.finish(limits.strict));
  if (format == nullptr) return ok_status();
  if (!format->is_object()) return field_error("text.format", "must be an object");
  Fields fields(*format, "text.format", warnings);
  std::string type;
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  if (type == "text") return fields.finish(limits.strict);
  if (!limits.abilities.answer_forms) {
    return field_error("text.format.type", "'{}' {}", shown(type), kToCome);
  }
  if (type == "json_object") {
    conversation.response_format = ResponseFormat::kJsonObject;
    return fields.finish(limits.strict);
  }
  if (type != "json_schema") {
    return field_error("text.format.type", "must be text, json_object or json_schema, not '{}'",
                       shown(type));
  }
  const Json* schema = fields.take("schema");
  if (schema == nullptr) return field_error("text.format.schema", "is missing");
  if (fields.take("name") == nullptr) return field_error("text.format.name", "is missing");
  LS_RETURN_IF_ERROR(fields.ignore("name", kString, "the model is not told it"));
  LS_RETURN_IF_ERROR(fields.ignore("description", kString, "the model is not told it"));
  bool strict = false;
  LS_RETURN_IF_ERROR(fields.read_bool("strict", strict));
  LS_RETURN_IF_ERROR(check_answer_schema(*schema, strict, "text.format.schema"));
  conversation.response_format = ResponseFormat::kJsonSchema;
  conversation.response_schema = *schema;
  return fields.finish(limits.strict);
}

Status read_reasoning(Fields& body, const DialectLimits& limits, Warnings& warnings,
                      Conversation& conversation) {
  ThinkingRequest wanted;
  wanted.effort_path = "reasoning.effort";
  const Json* reasoning = body.take("reasoning");
  if (reasoning != nullptr && !reasoning->is_object()) {
    return field_error("reasoning", "must be an object");
  }
  if (reasoning != nullptr) {
    Fields fields(*reasoning, "reasoning", warnings);
    LS_RETURN_IF_ERROR(fields.read_string("effort", wanted.effort));
    LS_RETURN_IF_ERROR(fields.ignore("summary", kString, "the reasoning itself is shown"));
    LS_RETURN_IF_ERROR(
        fields.ignore("generate_summary", kString, "the reasoning itself is shown"));
    LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  }
  if (!limits.abilities.reasoning) return ok_status();
  return set_thinking(wanted, limits.abilities.thinks_unless_told, conversation);
}

Status read_sampling(Fields& body, const DialectLimits& limits, GenerationOrder& order) {
  if (body.take("model") == nullptr) return field_error("model", "is missing: name the model");
  LS_RETURN_IF_ERROR(body.read_string("model", order.model));
  SamplingParams& sampling = order.sampling;
  LS_RETURN_IF_ERROR(read_max_tokens(body, "max_output_tokens", limits, sampling));
  LS_RETURN_IF_ERROR(body.read_number("temperature", 0.0, 2.0, sampling.temperature));
  LS_RETURN_IF_ERROR(body.read_number("top_p", 0.0, 1.0, sampling.top_p));
  if (!(sampling.top_p > 0.0f)) return field_error("top_p", "must be above 0 and at most 1");
  int64_t top = -1;
  LS_RETURN_IF_ERROR(body.read_integer("top_logprobs", 0, limits.top_logprobs_max, top));
  if (top >= 0) sampling.top_logprobs = static_cast<int32_t>(top);
  LS_RETURN_IF_ERROR(body.read_bool("stream", order.stream));
  struct Harmless {
    std::string_view key;
    unsigned types;
  };
  constexpr Harmless kHarmless[] = {
      {"store", kBool},          {"include", kArray},         {"metadata", kObject},
      {"truncation", kString},   {"prompt_cache_key", kString}, {"service_tier", kString},
      {"user", kString},         {"safety_identifier", kString}, {"stream_options", kObject},
      {"background", kBool},     {"prompt_cache_retention", kString},
      {"previous_response_id", kString}, {"client_metadata", kObject},
      {"max_tool_calls", kNumber}, {"context_management", kObject | kArray},
  };
  for (const Harmless& field : kHarmless) {
    LS_RETURN_IF_ERROR(body.ignore(field.key, field.types, "it changes no prompt"));
  }
  return ok_status();
}

}  // namespace

StatusOr<ChatOrder> parse_openai_responses(const Json& body, const DialectLimits& limits) {
  if (!body.is_object()) {
    return invalid_argument("the body must be a JSON object, not {}", json_type_name(body));
  }
  ChatOrder order;
  Warnings& warnings = order.generation.warnings;
  Conversation& conversation = order.conversation;
  Fields fields(body, "", warnings);
  LS_RETURN_IF_ERROR(read_sampling(fields, limits, order.generation));
  LS_RETURN_IF_ERROR(read_reasoning(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(read_text(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(read_tools(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(read_tool_choice(fields, warnings, conversation));
  LS_RETURN_IF_ERROR(read_input(fields, limits, warnings, conversation));
  if (conversation.response_format == ResponseFormat::kJsonObject &&
      !mentions_json(conversation)) {
    return request_error("text.format", "Response input messages must contain the word 'json' in "
                         "some form to use 'text.format' of type 'json_object'.");
  }
  LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  return order;
}

}  // namespace lineshaft::recipe
