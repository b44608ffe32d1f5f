// ChatAnswer: the parsed answer of one choice -> OpenAI's chunks and message, with reasoning and
// tool calls in the form of DeepSeek's API. Knows no HTTP and no tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
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

struct ChatUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;
};

class ChatAnswer {
 public:
  // `new_call_id` gives the id of the call with this index.
  ChatAnswer(ChatAnswerInfo info, std::function<std::string(int32_t)> new_call_id);

  // The first chunk of a stream: the role.
  Json first() const;
  // The chunk for the next event.
  Json next(const AnswerEvent& event);
  // The last chunk: why it ended, and the usage.
  Json last(std::string_view finish_reason, const ChatUsage& usage) const;
  // All of it as a chat.completion.
  Json whole(std::string_view finish_reason, const ChatUsage& usage) const;

  // Of all events so far.
  const std::string& reasoning() const { return reasoning_; }

 private:
  Json chunk(Json delta, const Json& finish_reason) const;
  Json base(std::string_view object) const;
  Json usage_json(const ChatUsage& usage) const;

  const ChatAnswerInfo info_;
  const std::function<std::string(int32_t)> new_call_id_;
  std::string reasoning_;
  std::string content_;
  Json calls_ = Json::array();
};

}  // namespace lineshaft::recipe
