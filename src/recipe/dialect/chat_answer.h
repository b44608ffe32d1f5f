// ChatAnswer: the parsed answer of one choice -> OpenAI's chunks and message, with reasoning and
// tool calls in the form of DeepSeek's API. Knows no HTTP and no tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "recipe/dialect/stream_part.h"
#include "recipe/parser/answer_parser.h"

namespace lineshaft::recipe {

struct ChatAnswerInfo {
  std::string id;           // "chatcmpl-..."
  std::string model;
  std::string fingerprint;  // "": none
  int64_t created = 0;      // Unix seconds
  bool thinking = false;    // the answer may hold reasoning
  bool begins_with_reasoning = false;
  bool include_usage = false;
};

class ChatAnswer {
 public:
  ChatAnswer(ChatAnswerInfo info, CallIdMaker new_call_id);

  // The first chunk of a stream: the role.
  Json first() const;
  // The chunk for the next event. `logprobs`: of the tokens of a text, in OpenAI's form; an empty
  // array when none were asked for.
  Json next(const AnswerEvent& event, const Json& logprobs = Json::array());
  // The last chunk: why it ended, and the usage.
  Json last(std::string_view finish_reason, const TokenUsage& usage) const;
  // All of it as a chat.completion.
  Json whole(std::string_view finish_reason, const TokenUsage& usage) const;

  // Of all events so far.
  const std::string& reasoning() const { return reasoning_; }

 private:
  Json chunk(Json delta, const Json& finish_reason, Json logprobs = nullptr) const;
  Json add_logprobs(const char* key, const Json& logprobs);
  Json base(std::string_view object) const;
  Json usage_json(const TokenUsage& usage) const;

  const ChatAnswerInfo info_;
  const CallIdMaker new_call_id_;
  std::string reasoning_;
  std::string content_;
  Json logprobs_;  // null, or those of the content and of the reasoning
  Json calls_ = Json::array();
};

}  // namespace lineshaft::recipe
