#include "recipe/dialect/openai_chat.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kNoTools = "tool calls come with a later release";

StatusOr<Role> read_role(Fields& message) {
  std::string role;
  if (message.take("role") == nullptr) return field_error(message.path_of("role"), "is missing");
  LS_RETURN_IF_ERROR(message.read_string("role", role));
  if (role == "system" || role == "developer") return Role::kSystem;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "tool") return Role::kTool;
  return field_error(message.path_of("role"),
                     "must be developer, system, user, assistant or tool, not '{}'", shown(role));
}

// One entry of a content array, appended on a line of its own.
Status append_part(const Json& part, const std::string& path, const DialectLimits& limits,
                   Warnings& warnings, std::string& text) {
  if (!part.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(part));
  }
  Fields fields(part, path, warnings);
  std::string type;
  if (fields.take("type") == nullptr) return field_error(path + ".type", "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  const bool refusal = type == "refusal";
  if (type != "text" && !refusal) {
    return field_error(path + ".type", "'{}' is not supported: this model reads text only",
                       shown(type));
  }
  const std::string_view key = refusal ? "refusal" : "text";
  std::string words;
  if (fields.take(key) == nullptr) return field_error(fields.path_of(key), "is missing");
  LS_RETURN_IF_ERROR(fields.read_string(key, words));
  LS_RETURN_IF_ERROR(fields.ignore("cache_control", kObject, "prefixes are always reused"));
  text += words;
  return fields.finish(limits.strict);
}

Status read_content(Fields& message, const DialectLimits& limits, Warnings& warnings, Turn& turn,
                    bool optional) {
  const std::string path = message.path_of("content");
  const Json* content = message.take("content");
  if (content == nullptr) {
    return optional ? ok_status() : field_error(path, "is missing: give the text of the message");
  }
  if (content->is_string()) {
    turn.content = content->get_ref<const std::string&>();
    return ok_status();
  }
  if (!content->is_array()) {
    return field_error(path, "must be a string or an array of parts, not {}",
                       json_type_name(*content));
  }
  if (content->empty()) return field_error(path, "has no parts");
  for (size_t i = 0; i < content->size(); ++i) {
    if (i > 0) turn.content += '\n';
    LS_RETURN_IF_ERROR(append_part((*content)[i], fmt::format("{}[{}]", path, i), limits, warnings,
                                   turn.content));
  }
  return ok_status();
}

// True when the message holds calls. The templates that are served have no form for them: they
// render such a turn without.
StatusOr<bool> read_tool_calls(Fields& message, Warnings& warnings) {
  const Json* calls = message.take("tool_calls");
  if (calls == nullptr) return false;
  const std::string path = message.path_of("tool_calls");
  if (!calls->is_array()) {
    return field_error(path, "must be an array, not {}", json_type_name(*calls));
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    if (!(*calls)[i].is_object()) {
      return field_error(fmt::format("{}[{}]", path, i), "must be an object, not {}",
                         json_type_name((*calls)[i]));
    }
  }
  if (calls->empty()) return false;
  warnings.add(fmt::format("'{}' is left out: the model's chat template has no tool calls", path));
  return true;
}

StatusOr<Turn> read_message(const Json& value, size_t index, const DialectLimits& limits,
                            Warnings& warnings) {
  const std::string path = fmt::format("messages[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields message(value, path, warnings);
  Turn turn;
  LS_ASSIGN_OR_RETURN(turn.role, read_role(message));
  const bool assistant = turn.role == Role::kAssistant;
  bool has_calls = false;
  if (assistant) {
    LS_ASSIGN_OR_RETURN(has_calls, read_tool_calls(message, warnings));
    LS_RETURN_IF_ERROR(message.ignore("reasoning_content", kString, "the template leaves it out"));
    LS_RETURN_IF_ERROR(message.ignore("refusal", kString, "the template leaves it out"));
    LS_RETURN_IF_ERROR(message.refuse("function_call", kNoTools));
    LS_RETURN_IF_ERROR(message.refuse("audio", "this model reads text only"));
    LS_RETURN_IF_ERROR(message.ignore("annotations", kArray, "they are not part of a prompt"));
    bool prefix = false;
    LS_RETURN_IF_ERROR(message.read_bool("prefix", prefix));
    if (prefix) {
      return field_error(message.path_of("prefix"),
                         "is not supported: an answer can't be continued yet");
    }
  }
  if (turn.role == Role::kTool) {
    LS_RETURN_IF_ERROR(message.ignore("tool_call_id", kString, "the template leaves it out"));
  }
  LS_RETURN_IF_ERROR(message.ignore("name", kString, "the template leaves it out"));
  LS_RETURN_IF_ERROR(read_content(message, limits, warnings, turn, has_calls));
  LS_RETURN_IF_ERROR(message.finish(limits.strict));
  return turn;
}

Status read_messages(Fields& body, const DialectLimits& limits, ChatOrder& order) {
  const Json* messages = body.take("messages");
  if (messages == nullptr) return field_error("messages", "is missing");
  if (!messages->is_array()) {
    return field_error("messages", "must be an array, not {}", json_type_name(*messages));
  }
  if (messages->empty()) return field_error("messages", "must hold at least one message");
  for (size_t i = 0; i < messages->size(); ++i) {
    LS_ASSIGN_OR_RETURN(Turn turn, read_message((*messages)[i], i, limits,
                                                order.generation.warnings));
    order.conversation.turns.push_back(std::move(turn));
  }
  return ok_status();
}

Status read_logprobs(Fields& body, const DialectLimits& limits, SamplingParams& sampling) {
  bool wanted = false;
  LS_RETURN_IF_ERROR(body.read_bool("logprobs", wanted));
  int64_t top = -1;
  LS_RETURN_IF_ERROR(body.read_integer("top_logprobs", 0, limits.top_logprobs_max, top));
  if (top >= 0 && !wanted) {
    return field_error("top_logprobs", "is only allowed when 'logprobs' is true");
  }
  if (wanted) sampling.top_logprobs = static_cast<int32_t>(std::max<int64_t>(top, 0));
  return ok_status();
}

// An empty list of tools and a choice of none ask for nothing; all else is refused by name.
Status read_tools(Fields& body) {
  for (const std::string_view key : {"tools", "functions"}) {
    const Json* tools = body.take(key);
    if (tools == nullptr) continue;
    if (!tools->is_array()) {
      return field_error(key, "must be an array, not {}", json_type_name(*tools));
    }
    if (!tools->empty()) return field_error(key, "is not supported: {}", kNoTools);
  }
  for (const std::string_view key : {"tool_choice", "function_call"}) {
    const Json* choice = body.take(key);
    if (choice == nullptr) continue;
    if (!choice->is_string() && !choice->is_object()) {
      return field_error(key, "must be a string or an object, not {}", json_type_name(*choice));
    }
    if (*choice != "none" && *choice != "auto") {
      return field_error(key, "is not supported: {}", kNoTools);
    }
  }
  return body.ignore("parallel_tool_calls", kBool, "there are no tools");
}

Status read_response_format(Fields& body) {
  const Json* format = body.take("response_format");
  if (format == nullptr) return ok_status();
  if (!format->is_object()) {
    return field_error("response_format", "must be an object, not {}", json_type_name(*format));
  }
  const auto type = format->find("type");
  if (type == format->end() || !type->is_string()) {
    return field_error("response_format.type", "must be a string");
  }
  if (*type == "text") return ok_status();
  return field_error("response_format.type",
                     "'{}' is not supported: structured output comes with a later release",
                     shown(type->get_ref<const std::string&>()));
}

Status read_modalities(Fields& body) {
  const Json* modalities = body.take("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    return field_error("modalities", "must be [\"text\"]: this model writes text only");
  }
  return body.refuse("audio", "this model writes text only");
}

Status ignore_chat_only(Fields& body) {
  constexpr std::string_view kNoReasoning = "this model does not reason apart from its answer";
  LS_RETURN_IF_ERROR(body.ignore("reasoning_effort", kString, kNoReasoning));
  LS_RETURN_IF_ERROR(body.ignore("thinking", kObject, kNoReasoning));
  LS_RETURN_IF_ERROR(body.ignore("chat_template_kwargs", kObject, "the template has no settings"));
  LS_RETURN_IF_ERROR(body.ignore("prediction", kObject, "it would change speed only"));
  LS_RETURN_IF_ERROR(body.ignore("verbosity", kString, "this model was not taught it"));
  LS_RETURN_IF_ERROR(body.ignore("moderation", kObject, "nothing is moderated here"));
  return body.refuse("web_search_options", "there is no web search");
}

}  // namespace

StatusOr<ChatOrder> parse_openai_chat(const Json& body, const DialectLimits& limits) {
  if (!body.is_object()) {
    return invalid_argument("the body must be a JSON object, not {}", json_type_name(body));
  }
  ChatOrder order;
  GenerationOrder& generation = order.generation;
  Fields fields(body, "", generation.warnings);
  LS_RETURN_IF_ERROR(read_generation(fields, limits, generation));
  // The newer name wins over max_tokens.
  int64_t tokens = generation.sampling.max_tokens;
  LS_RETURN_IF_ERROR(fields.read_integer("max_completion_tokens", 1, INT64_MAX, tokens));
  generation.sampling.max_tokens =
      static_cast<int32_t>(std::min<int64_t>(tokens, std::numeric_limits<int32_t>::max()));
  LS_RETURN_IF_ERROR(read_logprobs(fields, limits, generation.sampling));
  LS_RETURN_IF_ERROR(read_tools(fields));
  LS_RETURN_IF_ERROR(read_response_format(fields));
  LS_RETURN_IF_ERROR(read_modalities(fields));
  LS_RETURN_IF_ERROR(ignore_chat_only(fields));
  LS_RETURN_IF_ERROR(read_messages(fields, limits, order));
  LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  return order;
}

}  // namespace lineshaft::recipe
