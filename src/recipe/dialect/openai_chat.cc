#include "recipe/dialect/openai_chat.h"

#include <algorithm>
#include <utility>

#include "recipe/dialect/chat_messages.h"
#include "recipe/dialect/thinking.h"
#include "recipe/dialect/tools.h"

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kNoTools = "this model's format has no place for tools";
constexpr std::string_view kOldTools = "tools in the first form are not taken: use 'tools'";

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
Status refuse_tools(Fields& body) {
  const Json* tools = body.take("tools");
  if (tools != nullptr && !tools->is_array()) {
    return field_error("tools", "must be an array, not {}", json_type_name(*tools));
  }
  if (tools != nullptr && !tools->empty()) {
    return field_error("tools", "is not supported: {}", kNoTools);
  }
  const Json* choice = body.take("tool_choice");
  if (choice != nullptr && !choice->is_string() && !choice->is_object()) {
    return field_error("tool_choice", "must be a string or an object, not {}",
                       json_type_name(*choice));
  }
  if (choice != nullptr && *choice != "none" && *choice != "auto") {
    return field_error("tool_choice", "is not supported: {}", kNoTools);
  }
  return body.ignore("parallel_tool_calls", kBool, "there are no tools");
}

// OpenAI's first form of tools.
Status refuse_functions(Fields& body) {
  const Json* functions = body.take("functions");
  if (functions != nullptr && !functions->is_array()) {
    return field_error("functions", "must be an array, not {}", json_type_name(*functions));
  }
  if (functions != nullptr && !functions->empty()) {
    return field_error("functions", "is not supported: {}", kOldTools);
  }
  const Json* call = body.take("function_call");
  if (call == nullptr || *call == "none" || *call == "auto") return ok_status();
  return field_error("function_call", "is not supported: {}", kOldTools);
}

Status read_tool(const Json& value, size_t index, bool strict, Warnings& warnings, Tool& tool) {
  const std::string path = fmt::format("tools[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields fields(value, path, warnings);
  std::string type;
  if (fields.take("type") == nullptr) return field_error(fields.path_of("type"), "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  if (type != "function") {
    return field_error(fields.path_of("type"), "must be function, not '{}'", shown(type));
  }
  const Json* function = fields.take("function");
  const std::string inner = fields.path_of("function");
  if (function == nullptr || !function->is_object()) {
    return field_error(inner, "must be an object");
  }
  Fields about(*function, inner, warnings);
  if (about.take("name") == nullptr) return field_error(about.path_of("name"), "is missing");
  LS_RETURN_IF_ERROR(about.read_string("name", tool.name));
  LS_RETURN_IF_ERROR(check_tool_name(tool.name, about.path_of("name")));
  LS_RETURN_IF_ERROR(about.read_string("description", tool.description));
  LS_RETURN_IF_ERROR(about.read_bool("strict", tool.strict));
  LS_RETURN_IF_ERROR(
      read_tool_schema(about.take("parameters"), about.path_of("parameters"), tool));
  LS_RETURN_IF_ERROR(about.finish(strict));
  return fields.finish(strict);
}

Status read_tool_choice(Fields& body, Conversation& conversation) {
  const Json* choice = body.take("tool_choice");
  if (choice == nullptr || *choice == "auto") return ok_status();
  if (*choice == "none") {
    conversation.tool_choice = ToolChoice::kNone;
    return ok_status();
  }
  if (*choice == "required") {
    conversation.tool_choice = ToolChoice::kRequired;
    return ok_status();
  }
  const auto member = [](const Json& of, const char* key) {
    return of.is_object() && of.contains(key) ? of[key] : Json();
  };
  const Json name = member(member(*choice, "function"), "name");
  if (!name.is_string() || member(*choice, "type") != "function") {
    return field_error("tool_choice", "must be none, auto, required or a function by its name");
  }
  return require_tool(conversation, name.get_ref<const std::string&>());
}

Status read_tools(Fields& body, const DialectLimits& limits, Warnings& warnings,
                  Conversation& conversation) {
  if (!limits.abilities.tools) return refuse_tools(body);
  const Json* tools = body.take("tools");
  if (tools != nullptr && !tools->is_array()) {
    return field_error("tools", "must be an array, not {}", json_type_name(*tools));
  }
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    Tool tool;
    LS_RETURN_IF_ERROR(read_tool((*tools)[i], i, limits.strict, warnings, tool));
    conversation.tools.push_back(std::move(tool));
  }
  LS_RETURN_IF_ERROR(check_tools(conversation));
  LS_RETURN_IF_ERROR(read_tool_choice(body, conversation));
  return body.read_bool("parallel_tool_calls", conversation.parallel_calls);
}

Status read_answer_schema(Fields& format, Warnings& warnings, bool strict_fields,
                          Conversation& conversation) {
  const std::string path = format.path_of("json_schema");
  const Json* about = format.take("json_schema");
  if (about == nullptr || !about->is_object()) return field_error(path, "must be an object");
  Fields fields(*about, path, warnings);
  const Json* schema = fields.take("schema");
  if (schema == nullptr) return field_error(fields.path_of("schema"), "is missing");
  bool strict = false;
  LS_RETURN_IF_ERROR(fields.read_bool("strict", strict));
  LS_RETURN_IF_ERROR(fields.ignore("name", kString, "the model is not told it"));
  LS_RETURN_IF_ERROR(fields.ignore("description", kString, "the model is not told it"));
  LS_RETURN_IF_ERROR(check_answer_schema(*schema, strict, fields.path_of("schema")));
  conversation.response_schema = *schema;
  return fields.finish(strict_fields);
}

Status read_response_format(Fields& body, const DialectLimits& limits, Warnings& warnings,
                            Conversation& conversation) {
  const Json* format = body.take("response_format");
  if (format == nullptr) return ok_status();
  if (!format->is_object()) {
    return field_error("response_format", "must be an object, not {}", json_type_name(*format));
  }
  Fields fields(*format, "response_format", warnings);
  std::string type;
  if (fields.take("type") == nullptr) return field_error("response_format.type", "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  if (type == "text") return ok_status();
  if (!limits.abilities.answer_forms) {
    return field_error("response_format.type",
                       "'{}' is not supported: structured output comes with a later release",
                       shown(type));
  }
  if (type == "json_object") {
    conversation.response_format = ResponseFormat::kJsonObject;
    return fields.finish(limits.strict);
  }
  if (type != "json_schema") {
    return field_error("response_format.type", "must be text, json_object or json_schema, not '{}'",
                       shown(type));
  }
  conversation.response_format = ResponseFormat::kJsonSchema;
  LS_RETURN_IF_ERROR(read_answer_schema(fields, warnings, limits.strict, conversation));
  return fields.finish(limits.strict);
}

Status read_reasoning(Fields& body, const DialectLimits& limits, Warnings& warnings,
                      Conversation& conversation) {
  if (!limits.abilities.reasoning) {
    constexpr std::string_view kNoReasoning = "this model does not reason apart from its answer";
    LS_RETURN_IF_ERROR(body.ignore("reasoning_effort", kString, kNoReasoning));
    LS_RETURN_IF_ERROR(body.ignore("thinking", kObject, kNoReasoning));
    return body.ignore("chat_template_kwargs", kObject, "the template has no settings");
  }
  ThinkingRequest wanted;
  LS_RETURN_IF_ERROR(body.read_string("reasoning_effort", wanted.effort));
  wanted.effort_path = "reasoning_effort";
  LS_RETURN_IF_ERROR(read_thinking_field(body, limits.strict, warnings, wanted));
  const Json* settings = body.take("chat_template_kwargs");
  if (settings != nullptr && !settings->is_object()) {
    return field_error("chat_template_kwargs", "must be an object, not {}",
                       json_type_name(*settings));
  }
  if (settings != nullptr && wanted.type.empty()) {
    Fields fields(*settings, "chat_template_kwargs", warnings);
    const Json* on = fields.take("enable_thinking");
    if (on == nullptr) on = fields.take("thinking");
    if (on != nullptr && !on->is_boolean()) {
      return field_error("chat_template_kwargs.enable_thinking", "must be true or false");
    }
    if (on != nullptr) wanted.type = on->get<bool>() ? "enabled" : "disabled";
    LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  }
  return set_thinking(wanted, limits.abilities.thinks_unless_told, conversation);
}

Status read_modalities(Fields& body) {
  const Json* modalities = body.take("modalities");
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    return field_error("modalities", "must be [\"text\"]: this model writes text only");
  }
  return body.refuse("audio", "this model writes text only");
}

Status ignore_chat_only(Fields& body) {
  LS_RETURN_IF_ERROR(body.ignore("prediction", kObject, "it would change speed only"));
  LS_RETURN_IF_ERROR(body.ignore("verbosity", kString, "this model was not taught it"));
  LS_RETURN_IF_ERROR(body.ignore("moderation", kObject, "nothing is moderated here"));
  return body.refuse("web_search_options", "there is no web search");
}

// What several fields must agree on.
Status check_whole(const Conversation& conversation) {
  const bool json = conversation.response_format == ResponseFormat::kJsonObject;
  if (json && !mentions_json(conversation)) {
    return request_error("response_format", "Prompt must contain the word 'json' in some form to "
                         "use 'response_format' of type 'json_object'.");
  }
  const std::string path = fmt::format("messages[{}].prefix", conversation.turns.size() - 1);
  if (!conversation.turns.back().unfinished) return ok_status();
  if (json) {
    return request_error(path, "response_format json_object should not be used with prefix");
  }
  const bool calls = std::any_of(conversation.turns.begin(), conversation.turns.end(),
                                 [](const Turn& turn) { return !turn.calls.empty(); });
  if (calls || !conversation.tools.empty()) {
    return request_error(path, "Function call should not be used with prefix");
  }
  return ok_status();
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
  // The newer name wins.
  LS_RETURN_IF_ERROR(
      read_max_tokens(fields, "max_completion_tokens", limits, generation.sampling));
  LS_RETURN_IF_ERROR(read_logprobs(fields, limits, generation.sampling));
  Conversation& conversation = order.conversation;
  Warnings& warnings = generation.warnings;
  LS_RETURN_IF_ERROR(read_response_format(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(read_tools(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(refuse_functions(fields));
  LS_RETURN_IF_ERROR(read_reasoning(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(read_modalities(fields));
  LS_RETURN_IF_ERROR(ignore_chat_only(fields));
  LS_RETURN_IF_ERROR(read_chat_messages(fields, limits, warnings, conversation));
  LS_RETURN_IF_ERROR(check_whole(conversation));
  LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  return order;
}

}  // namespace lineshaft::recipe
