#include "recipe/dialect/chat_answer.h"

#include <utility>

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

}  // namespace

ChatAnswer::ChatAnswer(ChatAnswerInfo info, CallIdMaker new_call_id)
    : info_(std::move(info)), new_call_id_(std::move(new_call_id)) {}

Json ChatAnswer::base(std::string_view object) const {
  Json out = Json::object();
  out["id"] = info_.id;
  out["object"] = std::string(object);
  out["created"] = info_.created;
  out["model"] = info_.model;
  return out;
}

Json ChatAnswer::chunk(Json delta, const Json& finish_reason, Json logprobs) const {
  Json out = base("chat.completion.chunk");
  out["system_fingerprint"] = info_.fingerprint.empty() ? Json() : Json(info_.fingerprint);
  Json choice = Json::object();
  choice["index"] = 0;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_reason;
  out["choices"] = Json::array({std::move(choice)});
  if (info_.include_usage) out["usage"] = nullptr;
  return out;
}

Json ChatAnswer::first() const {
  Json delta = {{"role", "assistant"}};
  delta["content"] = info_.begins_with_reasoning ? Json() : Json("");
  if (info_.thinking) delta["reasoning_content"] = info_.begins_with_reasoning ? Json("") : Json();
  return chunk(std::move(delta), nullptr);
}

// Adds to those of the whole answer; returns what a chunk shows.
Json ChatAnswer::add_logprobs(const char* key, const Json& logprobs) {
  if (logprobs.empty()) return nullptr;
  if (logprobs_.is_null()) logprobs_ = Json::object();
  for (const Json& entry : logprobs) logprobs_[key].push_back(entry);
  return Json{{key, logprobs}};
}

Json ChatAnswer::next(const AnswerEvent& event, const Json& logprobs) {
  Json delta = Json::object();
  if (event.kind == Kind::kReasoning) {
    reasoning_ += event.text;
    delta["content"] = nullptr;
    delta["reasoning_content"] = event.text;
    return chunk(std::move(delta), nullptr, add_logprobs("reasoning_content", logprobs));
  }
  if (event.kind == Kind::kContent) {
    content_ += event.text;
    delta["content"] = event.text;
    if (info_.thinking) delta["reasoning_content"] = nullptr;
    return chunk(std::move(delta), nullptr, add_logprobs("content", logprobs));
  }
  Json call = Json::object();
  if (event.kind == Kind::kCall) {
    const auto index = static_cast<int32_t>(calls_.size());
    call["index"] = index;
    call["id"] = new_call_id_(index);
    call["type"] = "function";
    call["function"] = Json{{"name", event.text}};
    call["function"]["arguments"] = "";
    calls_.push_back(call);
  } else if (!calls_.empty()) {
    call["index"] = calls_.size() - 1;
    call["function"] = Json::object();
    call["function"]["arguments"] = event.text;
    calls_.back()["function"]["arguments"].get_ref<std::string&>() += event.text;
  }
  delta["tool_calls"] = Json::array({std::move(call)});
  return chunk(std::move(delta), nullptr);
}

Json ChatAnswer::usage_json(const TokenUsage& usage) const {
  Json out = Json::object();
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.completion_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  out["prompt_tokens_details"] = Json::object();
  out["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
  if (info_.thinking) {
    out["completion_tokens_details"] = Json::object();
    out["completion_tokens_details"]["reasoning_tokens"] = usage.reasoning_tokens;
  }
  out["prompt_cache_hit_tokens"] = usage.cached_tokens;
  out["prompt_cache_miss_tokens"] = usage.prompt_tokens - usage.cached_tokens;
  return out;
}

Json ChatAnswer::last(std::string_view finish_reason, const TokenUsage& usage) const {
  Json delta = Json::object();
  delta["content"] = "";
  if (info_.thinking) delta["reasoning_content"] = nullptr;
  Json out = chunk(std::move(delta), std::string(finish_reason));
  out["usage"] = usage_json(usage);
  return out;
}

Json ChatAnswer::whole(std::string_view finish_reason, const TokenUsage& usage) const {
  Json message = {{"role", "assistant"}};
  message["content"] = content_;
  if (info_.begins_with_reasoning) message["reasoning_content"] = reasoning_;
  if (!calls_.empty()) message["tool_calls"] = calls_;
  Json choice = Json::object();
  choice["index"] = 0;
  choice["message"] = std::move(message);
  choice["logprobs"] = logprobs_;
  choice["finish_reason"] = std::string(finish_reason);
  Json out = base("chat.completion");
  out["choices"] = Json::array({std::move(choice)});
  out["usage"] = usage_json(usage);
  out["system_fingerprint"] = info_.fingerprint.empty() ? Json() : Json(info_.fingerprint);
  return out;
}

}  // namespace lineshaft::recipe
