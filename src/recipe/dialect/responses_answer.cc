#include "recipe/dialect/responses_answer.h"

#include <utility>

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

// The field of the request, or what holds when it is missing or null.
Json echoed(const Json& request, const char* key, Json otherwise) {
  const auto found = request.find(key);
  return found == request.end() || found->is_null() ? std::move(otherwise) : *found;
}

// Tools with the fields that SDK types say are there.
Json echoed_tools(const Json& request) {
  Json out = Json::array();
  const auto tools = request.find("tools");
  if (tools == request.end() || !tools->is_array()) return out;
  for (const Json& tool : *tools) {
    if (!tool.is_object() || tool.value("type", Json()) != "function") {
      out.push_back(tool);
      continue;
    }
    Json shown = Json::object();
    shown["type"] = "function";
    shown["name"] = tool.value("name", Json());
    for (const char* key : {"description", "parameters", "strict"}) {
      shown[key] = tool.value(key, Json());
    }
    out.push_back(std::move(shown));
  }
  return out;
}

// {"effort": …, "summary": …}, each null when the request doesn't say.
Json echoed_reasoning(const Json& request) {
  const Json given = echoed(request, "reasoning", Json::object());
  Json out = Json::object();
  for (const char* key : {"effort", "summary"}) {
    out[key] = given.is_object() ? given.value(key, Json()) : Json();
  }
  return out;
}

Json echoed_text(const Json& request) {
  const Json given = echoed(request, "text", Json::object());
  Json out = Json::object();
  out["format"] = echoed(given.is_object() ? given : Json::object(), "format",
                         Json{{"type", "text"}});
  out["verbosity"] = given.is_object() ? given.value("verbosity", Json()) : Json();
  return out;
}

// All fields but the output, in the order of the reference.
Json base_of(const ResponsesInfo& info) {
  const Json& request = info.request;
  Json out = Json::object();
  out["id"] = info.id;
  out["object"] = "response";
  out["created_at"] = info.created_at;
  out["status"] = "in_progress";
  out["background"] = false;
  out["completed_at"] = nullptr;
  out["content_filters"] = nullptr;
  out["error"] = nullptr;
  out["frequency_penalty"] = echoed(request, "frequency_penalty", 0.0);
  out["incomplete_details"] = nullptr;
  for (const char* key : {"instructions", "max_output_tokens", "max_tool_calls"}) {
    out[key] = echoed(request, key, nullptr);
  }
  out["model"] = info.model;
  out["moderation"] = nullptr;
  out["output"] = Json::array();
  out["parallel_tool_calls"] = echoed(request, "parallel_tool_calls", true);
  out["presence_penalty"] = echoed(request, "presence_penalty", 0.0);
  for (const char* key : {"previous_response_id", "prompt_cache_key", "prompt_cache_retention"}) {
    out[key] = echoed(request, key, nullptr);
  }
  out["reasoning"] = echoed_reasoning(request);
  out["safety_identifier"] = echoed(request, "safety_identifier", nullptr);
  out["service_tier"] = "default";
  out["store"] = info.store;
  out["temperature"] = echoed(request, "temperature", 1.0);
  out["text"] = echoed_text(request);
  out["tool_choice"] = echoed(request, "tool_choice", "auto");
  out["tools"] = echoed_tools(request);
  out["top_logprobs"] = echoed(request, "top_logprobs", 0);
  out["top_p"] = echoed(request, "top_p", 1.0);
  out["truncation"] = "disabled";
  out["usage"] = nullptr;
  out["user"] = echoed(request, "user", nullptr);
  out["metadata"] = echoed(request, "metadata", Json::object());
  if (!info.warnings.empty()) out["warnings"] = info.warnings;
  return out;
}

Json usage_json(const TokenUsage& usage) {
  Json out = Json::object();
  out["input_tokens"] = usage.prompt_tokens;
  out["input_tokens_details"] = Json{{"cached_tokens", usage.cached_tokens}};
  out["output_tokens"] = usage.completion_tokens;
  out["output_tokens_details"] = Json{{"reasoning_tokens", usage.reasoning_tokens}};
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  return out;
}

Json new_part(std::string_view type) {
  Json part = Json::object();
  part["type"] = std::string(type);
  if (type == "output_text") {
    part["annotations"] = Json::array();
    part["logprobs"] = Json::array();
  }
  part["text"] = "";
  return part;
}

}  // namespace

ResponsesAnswer::ResponsesAnswer(ResponsesInfo info, CallIdMaker new_call_id)
    : info_(std::move(info)), new_call_id_(std::move(new_call_id)), response_(base_of(info_)) {}

// "sequence_number" stands last, but for the text of a part that is done.
void ResponsesAnswer::append(const char* type, Json rest, std::vector<StreamPart>& out) {
  Json data = Json::object();
  data["type"] = type;
  for (auto& [key, value] : rest.items()) data[key] = std::move(value);
  data["sequence_number"] = sequence_++;
  out.push_back({type, std::move(data)});
}

bool ResponsesAnswer::is_open(std::string_view type) const {
  return open_ && items_.back()["type"].get_ref<const std::string&>() == type;
}

std::string ResponsesAnswer::item_id(std::string_view prefix) const {
  return fmt::format("{}_{}_{}", prefix, info_.id, items_.size());
}

void ResponsesAnswer::open(Json item, std::vector<StreamPart>& out) {
  Json rest = Json::object();
  rest["item"] = item;
  rest["output_index"] = items_.size();
  append("response.output_item.added", std::move(rest), out);
  items_.push_back(std::move(item));
  open_ = true;
}

// The one part of a message or of reasoning.
void ResponsesAnswer::open_part(const char* type, std::vector<StreamPart>& out) {
  Json rest = Json::object();
  rest["content_index"] = 0;
  rest["item_id"] = items_.back()["id"];
  rest["output_index"] = items_.size() - 1;
  rest["part"] = new_part(type);
  items_.back()["content"].push_back(rest["part"]);
  append("response.content_part.added", std::move(rest), out);
}

void ResponsesAnswer::add_delta(const char* type, const std::string& text,
                                std::vector<StreamPart>& out, const Json* logprobs) {
  const bool of_part = !is_open("function_call");
  Json rest = Json::object();
  if (of_part) rest["content_index"] = 0;
  rest["delta"] = text;
  rest["item_id"] = items_.back()["id"];
  if (logprobs != nullptr) rest["logprobs"] = *logprobs;
  rest["output_index"] = items_.size() - 1;
  append(type, std::move(rest), out);
}

void ResponsesAnswer::close_part(std::vector<StreamPart>& out) {
  const Json& part = items_.back()["content"].back();
  const bool text = part["type"] == "output_text";
  Json rest = Json::object();
  rest["content_index"] = 0;
  rest["item_id"] = items_.back()["id"];
  if (text) rest["logprobs"] = part["logprobs"];
  rest["output_index"] = items_.size() - 1;
  Json done = rest;
  done["text"] = part["text"];
  append(text ? "response.output_text.done" : "response.reasoning_text.done", std::move(done), out);
  rest.erase("logprobs");
  rest["part"] = part;
  append("response.content_part.done", std::move(rest), out);
}

void ResponsesAnswer::close(std::string_view status, std::vector<StreamPart>& out) {
  if (!open_) return;
  Json& item = items_.back();
  if (is_open("function_call")) {
    Json rest = Json::object();
    rest["arguments"] = item["arguments"];
    rest["item_id"] = item["id"];
    rest["output_index"] = items_.size() - 1;
    append("response.function_call_arguments.done", std::move(rest), out);
  } else {
    close_part(out);
  }
  item["status"] = std::string(status);
  open_ = false;
  Json rest = Json::object();
  rest["item"] = item;
  rest["output_index"] = items_.size() - 1;
  append("response.output_item.done", std::move(rest), out);
}

void ResponsesAnswer::begin(std::vector<StreamPart>& out) {
  for (const char* type : {"response.created", "response.in_progress"}) {
    append(type, Json{{"response", response_}}, out);
  }
}

void ResponsesAnswer::open_call(const std::string& name, std::vector<StreamPart>& out) {
  // Words before a call are not the answer.
  if (is_open("message")) items_.back()["phase"] = "commentary";
  close("completed", out);
  Json item = Json::object();
  item["type"] = "function_call";
  item["id"] = item_id("fc");
  item["status"] = "in_progress";
  item["call_id"] = new_call_id_(calls_++);
  item["name"] = name;
  item["arguments"] = "";
  open(std::move(item), out);
}

void ResponsesAnswer::next(const AnswerEvent& event, std::vector<StreamPart>& out, Json logprobs) {
  if (event.kind == Kind::kCall) return open_call(event.text, out);
  if (event.kind == Kind::kArguments) {
    if (!is_open("function_call")) return;
    items_.back()["arguments"].get_ref<std::string&>() += event.text;
    return add_delta("response.function_call_arguments.delta", event.text, out);
  }
  const bool reasoning = event.kind == Kind::kReasoning;
  const char* type = reasoning ? "reasoning" : "message";
  if (!is_open(type)) {
    close("completed", out);
    Json item = Json::object();
    item["type"] = type;
    item["id"] = item_id(reasoning ? "rs" : "msg");
    item["status"] = "in_progress";
    if (!reasoning) {
      item["role"] = "assistant";
      item["phase"] = "final_answer";
    }
    item["content"] = Json::array();
    if (reasoning) {
      item["summary"] = Json::array();
      item["encrypted_content"] = info_.id + "-0";
    }
    open(std::move(item), out);
    open_part(reasoning ? "reasoning_text" : "output_text", out);
  }
  Json& part = items_.back()["content"].back();
  part["text"].get_ref<std::string&>() += event.text;
  if (reasoning) return add_delta("response.reasoning_text.delta", event.text, out);
  for (const Json& entry : logprobs) part["logprobs"].push_back(entry);
  add_delta("response.output_text.delta", event.text, out, &logprobs);
}

void ResponsesAnswer::finish(const AnswerEnd& end, int64_t completed_at,
                             std::vector<StreamPart>& out) {
  const bool complete = end.reason != "length" && end.reason != "content_filter";
  const char* status = complete ? "completed" : "incomplete";
  close(status, out);
  response_["status"] = status;
  response_["completed_at"] = completed_at;
  response_["usage"] = usage_json(end.usage);
  if (!complete) {
    response_["incomplete_details"] =
        Json{{"reason", end.reason == "length" ? "max_output_tokens" : "content_filter"}};
  }
  append(complete ? "response.completed" : "response.incomplete", Json{{"response", whole()}},
         out);
}

void ResponsesAnswer::fail(std::string_view code, std::string_view message,
                           std::vector<StreamPart>& out) {
  close("incomplete", out);
  response_["status"] = "failed";
  response_["error"] = Json::object();
  response_["error"]["code"] = std::string(code);
  response_["error"]["message"] = std::string(message);
  append("response.failed", Json{{"response", whole()}}, out);
}

Json ResponsesAnswer::whole() const {
  Json out = response_;
  out["output"] = items_;
  return out;
}

}  // namespace lineshaft::recipe
