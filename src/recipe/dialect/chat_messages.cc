#include "recipe/dialect/chat_messages.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "recipe/dialect/images.h"
#include "recipe/dialect/tools.h"

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kOldCalls = "calls in the first form are not taken: use 'tool_calls'";

// What one message may hold and where the reader stands in it.
struct Reader {
  const DialectLimits& limits;
  Warnings& warnings;
};

StatusOr<Role> read_role(Fields& message, const Abilities& abilities) {
  std::string role;
  if (message.take("role") == nullptr) return field_error(message.path_of("role"), "is missing");
  LS_RETURN_IF_ERROR(message.read_string("role", role));
  if (role == "system" || role == "developer") return Role::kSystem;
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "tool") return Role::kTool;
  if (role == "latest_reminder" && abilities.reminders) return Role::kReminder;
  return field_error(message.path_of("role"),
                     "must be developer, system, user, assistant or tool, not '{}'", shown(role));
}

// An image, or a file that must hold one.
Status read_image(Fields& part, std::string_view type, size_t index, const Reader& reader,
                  Turn& turn) {
  const bool seen = reader.limits.abilities.images == Abilities::Images::kSeen;
  if (turn.role == Role::kAssistant && seen) {
    return request_error(part.path_of("type"), "Image in assistant message is not supported");
  }
  const std::string path = fmt::format(".messages[{}]", index);
  std::string url;
  if (type == "file") {
    LS_RETURN_IF_ERROR(part.read_string("file_data", url));
    if (url.empty() && seen) {
      return request_error(part.path_of("file_data"), "{}: file must have a file_id or file_data",
                           path);
    }
    LS_RETURN_IF_ERROR(part.ignore("filename", kString, "images have no names"));
  } else {
    const Json* image = part.take("image_url");
    if (image == nullptr || !(image->is_object() || image->is_string())) {
      return field_error(part.path_of("image_url"), "must be an object with a url");
    }
    const auto inner = image->is_object() ? image->find("url") : image->end();
    if (image->is_object() && (inner == image->end() || !inner->is_string())) {
      return field_error(part.path_of("image_url.url"), "must be a string");
    }
    url = (image->is_string() ? *image : *inner).get<std::string>();
  }
  if (seen) LS_RETURN_IF_ERROR(check_image_url(url, path));
  turn.images.push_back(turn.content.size());
  return ok_status();
}

// One entry of a content array, appended to the turn.
Status append_part(const Json& value, const std::string& path, size_t message, const Reader& reader,
                   Turn& turn) {
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields part(value, path, reader.warnings);
  std::string type;
  if (part.take("type") == nullptr) return field_error(path + ".type", "is missing");
  LS_RETURN_IF_ERROR(part.read_string("type", type));
  const bool images = reader.limits.abilities.images != Abilities::Images::kRefused;
  if (images && (type == "image_url" || type == "file")) {
    LS_RETURN_IF_ERROR(read_image(part, type, message, reader, turn));
    return part.finish(reader.limits.strict);
  }
  const bool refusal = type == "refusal";
  if (type != "text" && !refusal) {
    return field_error(path + ".type", "'{}' is not supported: this model reads text only",
                       shown(type));
  }
  const std::string_view key = refusal ? "refusal" : "text";
  std::string words;
  if (part.take(key) == nullptr) return field_error(part.path_of(key), "is missing");
  LS_RETURN_IF_ERROR(part.read_string(key, words));
  LS_RETURN_IF_ERROR(part.ignore("cache_control", kObject, "prefixes are always reused"));
  turn.content += words;
  return part.finish(reader.limits.strict);
}

// Parts are paragraphs.
Status read_content(Fields& message, size_t index, const Reader& reader, Turn& turn,
                    bool optional) {
  const std::string path = message.path_of("content");
  const Json* content = message.take("content");
  if (content == nullptr && turn.role == Role::kAssistant && !optional) {
    return request_error(path, "Invalid assistant message: content or tool_calls must be set");
  }
  turn.has_content = content != nullptr;
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
  for (size_t i = 0; i < content->size(); ++i) {
    if (i > 0) turn.content += "\n\n";
    LS_RETURN_IF_ERROR(
        append_part((*content)[i], fmt::format("{}[{}]", path, i), index, reader, turn));
  }
  return ok_status();
}

Status read_call(const Json& value, const std::string& path, const Reader& reader,
                 ToolCall& call) {
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields fields(value, path, reader.warnings);
  if (fields.take("id") == nullptr) return field_error(fields.path_of("id"), "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("id", call.id));
  std::string type = "function";
  LS_RETURN_IF_ERROR(fields.read_string("type", type));
  if (type != "function") {
    return field_error(fields.path_of("type"), "must be function, not '{}'", shown(type));
  }
  LS_RETURN_IF_ERROR(fields.ignore("index", kNumber, "calls stand in order"));
  const Json* function = fields.take("function");
  const std::string inner = fields.path_of("function");
  if (function == nullptr || !function->is_object()) {
    return field_error(inner, "must be an object");
  }
  Fields about(*function, inner, reader.warnings);
  for (const auto& [key, out] : {std::pair{"name", &call.name}, {"arguments", &call.arguments}}) {
    if (about.take(key) == nullptr) return field_error(about.path_of(key), "is missing");
    LS_RETURN_IF_ERROR(about.read_string(key, *out));
  }
  LS_RETURN_IF_ERROR(about.finish(reader.limits.strict));
  return fields.finish(reader.limits.strict);
}

// True when the message holds calls. A model without a form for them is shown the turn without.
StatusOr<bool> read_calls(Fields& message, const Reader& reader, Turn& turn) {
  const Json* calls = message.take("tool_calls");
  if (calls == nullptr) return false;
  const std::string path = message.path_of("tool_calls");
  if (!calls->is_array()) {
    return field_error(path, "must be an array, not {}", json_type_name(*calls));
  }
  const bool known = reader.limits.abilities.tools;
  if (calls->empty() && known) {
    return request_error(path, "Invalid '{}': empty array. Expected an array with minimum length "
                         "1, but got an empty array instead.", path);
  }
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!known && !(*calls)[i].is_object()) {
      return field_error(at, "must be an object, not {}", json_type_name((*calls)[i]));
    }
    if (!known) continue;
    ToolCall call;
    LS_RETURN_IF_ERROR(read_call((*calls)[i], at, reader, call));
    turn.calls.push_back(std::move(call));
  }
  if (!known && !calls->empty()) {
    reader.warnings.add(
        fmt::format("'{}' is left out: the model's chat template has no tool calls", path));
  }
  return !calls->empty();
}

Status read_assistant(Fields& message, const Reader& reader, Turn& turn) {
  const Abilities& abilities = reader.limits.abilities;
  if (abilities.reasoning) {
    LS_RETURN_IF_ERROR(message.read_string("reasoning_content", turn.reasoning));
  } else {
    LS_RETURN_IF_ERROR(message.ignore("reasoning_content", kString, "the template leaves it out"));
  }
  LS_RETURN_IF_ERROR(message.ignore("refusal", kString, "the template leaves it out"));
  LS_RETURN_IF_ERROR(message.refuse("function_call", kOldCalls));
  LS_RETURN_IF_ERROR(message.refuse("audio", "this model reads text only"));
  LS_RETURN_IF_ERROR(message.ignore("annotations", kArray, "they are not part of a prompt"));
  return ok_status();
}

// The prefix mark of DeepSeek: only the last message, an assistant's, may be continued.
Status read_unfinished(Fields& message, bool last, const Reader& reader, Turn& turn) {
  LS_RETURN_IF_ERROR(message.read_bool("prefix", turn.unfinished));
  if (!turn.unfinished) return ok_status();
  if (!reader.limits.abilities.continuation) {
    return field_error(message.path_of("prefix"),
                       "is not supported: an answer can't be continued yet");
  }
  if (last && turn.role == Role::kAssistant) return ok_status();
  return request_error(message.path_of("prefix"),
                       "Invalid completion message: prefix set true with message which is not "
                       "final message or message role is not assistant");
}

// Some clients put a billing line before their instructions.
void strip_billing_header(std::string& text) {
  if (!text.starts_with("x-anthropic-billing-header")) return;
  size_t end = std::min(text.find('\n'), text.find("You are"));
  if (end != text.npos) end = text.find_first_not_of(" \t\r\n", end);
  text.erase(0, end);
}

StatusOr<Turn> read_message(const Json& value, size_t index, bool last, const Reader& reader) {
  const std::string path = fmt::format("messages[{}]", index);
  if (!value.is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(value));
  }
  Fields message(value, path, reader.warnings);
  Turn turn;
  LS_ASSIGN_OR_RETURN(turn.role, read_role(message, reader.limits.abilities));
  bool has_calls = false;
  if (turn.role == Role::kAssistant) {
    LS_ASSIGN_OR_RETURN(has_calls, read_calls(message, reader, turn));
    LS_RETURN_IF_ERROR(read_assistant(message, reader, turn));
  }
  if (turn.role == Role::kTool && reader.limits.abilities.tools) {
    if (message.take("tool_call_id") == nullptr) {
      return field_error(message.path_of("tool_call_id"), "is missing");
    }
    LS_RETURN_IF_ERROR(message.read_string("tool_call_id", turn.call_id));
  } else if (turn.role == Role::kTool) {
    LS_RETURN_IF_ERROR(message.ignore("tool_call_id", kString, "the template leaves it out"));
  }
  LS_RETURN_IF_ERROR(read_unfinished(message, last, reader, turn));
  LS_RETURN_IF_ERROR(message.ignore("name", kString, "the template leaves it out"));
  LS_RETURN_IF_ERROR(read_content(message, index, reader, turn, has_calls));
  LS_RETURN_IF_ERROR(message.finish(reader.limits.strict));
  if (turn.role == Role::kSystem) {
    strip_billing_header(turn.content);
    turn.has_content = !turn.content.empty() || !turn.images.empty();
  }
  return turn;
}

// The results right after the turn at `caller` answer each of its calls once.
Status check_results(const std::vector<Turn>& turns, size_t caller) {
  constexpr std::string_view kMust =
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
      "'tool_call_id'";
  const auto& calls = turns[caller].calls;
  std::unordered_set<std::string_view> open;
  for (const ToolCall& call : calls) {
    if (open.insert(call.id).second) continue;
    return request_error(fmt::format("messages[{}].tool_calls", caller),
                         "Duplicate value for 'tool_call_id' of {} in message[{}]", shown(call.id),
                         caller);
  }
  std::unordered_set<std::string_view> seen;
  for (size_t i = caller + 1; i <= caller + calls.size(); ++i) {
    if (i >= turns.size() || turns[i].role != Role::kTool) {
      return request_error(fmt::format("messages[{}]", caller), "{}. (insufficient tool messages "
                           "following tool_calls message)", kMust);
    }
    const std::string path = fmt::format("messages[{}].tool_call_id", i);
    const std::string& id = turns[i].call_id;
    if (!seen.insert(id).second) {
      return request_error(path, "Duplicate value for 'tool_call_id' of {} in message[{}]",
                           shown(id), i);
    }
    if (open.erase(id) == 0) {
      return request_error(path, "{}, The following tool_call_ids did not have response messages: "
                           "{}", kMust, shown(id));
    }
  }
  return ok_status();
}

Status check_calls(const std::vector<Turn>& turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role == Role::kTool) {
      return request_error(fmt::format("messages[{}]", i), "Messages with role 'tool' must be a "
                           "response to a preceding message with 'tool_calls'");
    }
    if (turns[i].calls.empty()) continue;
    LS_RETURN_IF_ERROR(check_results(turns, i));
    i += turns[i].calls.size();
  }
  return ok_status();
}

}  // namespace

Status read_chat_messages(Fields& body, const DialectLimits& limits, Warnings& warnings,
                          Conversation& conversation) {
  const Json* messages = body.take("messages");
  if (messages == nullptr) return field_error("messages", "is missing");
  if (!messages->is_array()) {
    return field_error("messages", "must be an array, not {}", json_type_name(*messages));
  }
  if (messages->empty()) return field_error("messages", "must hold at least one message");
  const Reader reader{limits, warnings};
  for (size_t i = 0; i < messages->size(); ++i) {
    const bool last = i + 1 == messages->size();
    LS_ASSIGN_OR_RETURN(Turn turn, read_message((*messages)[i], i, last, reader));
    conversation.turns.push_back(std::move(turn));
  }
  return limits.abilities.tools ? check_calls(conversation.turns) : ok_status();
}

}  // namespace lineshaft::recipe
