#include "recipe/dialect/messages_answer.h"

#include <utility>

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

void append(std::vector<StreamPart>& out, const char* type, Json rest) {
  Json data = Json::object();
  data["type"] = type;
  for (auto& [key, value] : rest.items()) data[key] = std::move(value);
  out.push_back({type, std::move(data)});
}

// Cached tokens are not part of input_tokens in this dialect.
Json usage_json(const TokenUsage& usage) {
  Json out = Json::object();
  out["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
  out["cache_creation_input_tokens"] = 0;
  out["cache_read_input_tokens"] = usage.cached_tokens;
  out["output_tokens"] = usage.completion_tokens;
  out["service_tier"] = "standard";
  return out;
}

std::string_view stop_reason(const AnswerEnd& end) {
  if (!end.stop_string.empty()) return "stop_sequence";
  if (end.reason == "length") return "max_tokens";
  if (end.reason == "tool_calls") return "tool_use";
  return end.reason == "content_filter" ? "refusal" : "end_turn";
}

Json text_block() {
  Json block = Json::object();
  block["type"] = "text";
  block["text"] = "";
  return block;
}

Json thinking_block() {
  Json block = Json::object();
  block["type"] = "thinking";
  block["thinking"] = "";
  block["signature"] = "";
  return block;
}

}  // namespace

MessagesAnswer::MessagesAnswer(MessagesInfo info, CallIdMaker new_call_id)
    : info_(std::move(info)), new_call_id_(std::move(new_call_id)) {}

bool MessagesAnswer::is_open(std::string_view type) const {
  return open_ && blocks_.back()["type"].get_ref<const std::string&>() == type;
}

void MessagesAnswer::open(Json block, std::vector<StreamPart>& out) {
  close(out);
  Json rest = Json::object();
  rest["index"] = blocks_.size();
  rest["content_block"] = block;
  append(out, "content_block_start", std::move(rest));
  blocks_.push_back(std::move(block));
  open_ = true;
  if (!std::exchange(pinged_, true)) append(out, "ping", Json::object());
}

void MessagesAnswer::add_delta(const char* type, const char* key, const std::string& text,
                               std::vector<StreamPart>& out) {
  Json rest = Json::object();
  rest["index"] = blocks_.size() - 1;
  rest["delta"] = Json{{"type", type}};
  rest["delta"][key] = text;
  append(out, "content_block_delta", std::move(rest));
}

void MessagesAnswer::close(std::vector<StreamPart>& out) {
  if (!open_) return;
  Json& block = blocks_.back();
  if (is_open("thinking")) {
    block["signature"] = info_.id;
    add_delta("signature_delta", "signature", info_.id, out);
  } else if (is_open("tool_use")) {
    JsonLimits limits;
    limits.last_key_wins = true;
    auto input = parse_json(arguments_, limits);
    if (input.ok() && input->is_object()) block["input"] = *std::move(input);
  }
  open_ = false;
  Json rest = Json::object();
  rest["index"] = blocks_.size() - 1;
  append(out, "content_block_stop", std::move(rest));
}

void MessagesAnswer::begin(const TokenUsage& usage, std::vector<StreamPart>& out) {
  usage_ = usage;
  usage_.completion_tokens = 0;
  Json rest = Json::object();
  rest["message"] = whole();
  append(out, "message_start", std::move(rest));
  if (info_.begins_with_reasoning) open(thinking_block(), out);
}

void MessagesAnswer::next(const AnswerEvent& event, std::vector<StreamPart>& out) {
  switch (event.kind) {
    case Kind::kReasoning:
      if (!is_open("thinking")) open(thinking_block(), out);
      blocks_.back()["thinking"].get_ref<std::string&>() += event.text;
      return add_delta("thinking_delta", "thinking", event.text, out);
    case Kind::kContent:
      if (!is_open("text")) open(text_block(), out);
      blocks_.back()["text"].get_ref<std::string&>() += event.text;
      return add_delta("text_delta", "text", event.text, out);
    case Kind::kCall: {
      Json block = Json::object();
      block["type"] = "tool_use";
      block["id"] = new_call_id_(calls_++);
      block["name"] = event.text;
      block["input"] = Json::object();
      open(std::move(block), out);
      arguments_.clear();
      return;
    }
    case Kind::kArguments:
      if (!is_open("tool_use")) return;
      arguments_ += event.text;
      return add_delta("input_json_delta", "partial_json", event.text, out);
  }
}

void MessagesAnswer::finish(const AnswerEnd& end, std::vector<StreamPart>& out) {
  close(out);
  usage_ = end.usage;
  stop_reason_ = std::string(stop_reason(end));
  if (!end.stop_string.empty()) stop_sequence_ = end.stop_string;
  Json rest = Json::object();
  rest["delta"] = Json::object();
  rest["delta"]["stop_reason"] = stop_reason_;
  rest["delta"]["stop_sequence"] = stop_sequence_;
  rest["usage"] = usage_json(usage_);
  append(out, "message_delta", std::move(rest));
  append(out, "message_stop", Json::object());
}

Json MessagesAnswer::whole() const {
  Json out = Json::object();
  out["id"] = info_.id;
  out["type"] = "message";
  out["role"] = "assistant";
  out["model"] = info_.model;
  out["content"] = blocks_;
  out["stop_reason"] = stop_reason_;
  out["stop_sequence"] = stop_sequence_;
  out["usage"] = usage_json(usage_);
  if (!info_.warnings.empty()) out["warnings"] = info_.warnings;
  return out;
}

}  // namespace lineshaft::recipe
