// MessagesAnswer: one parsed answer -> the events and the message of Anthropic's Messages API.
// Knows no HTTP and no tokens. Source: the Anthropic API reference, streaming messages.
#pragma once

#include <string>
#include <vector>

#include "recipe/dialect/stream_part.h"
#include "recipe/parser/answer_parser.h"

namespace lineshaft::recipe {

struct MessagesInfo {
  std::string id;     // "msg_..."; signs the thinking too
  std::string model;  // as the request named it
  bool begins_with_reasoning = false;
  std::vector<std::string> warnings = {};  // of the request; part of the message
};

// In a stream: begin(), next() for each event of the parser, finish(). A whole reply needs the same
// calls, then whole(). What is appended is ready to be sent.
class MessagesAnswer {
 public:
  MessagesAnswer(MessagesInfo info, CallIdMaker new_call_id);

  // `usage` is that of the prompt.
  void begin(const TokenUsage& usage, std::vector<StreamPart>& out);
  void next(const AnswerEvent& event, std::vector<StreamPart>& out);
  void finish(const AnswerEnd& end, std::vector<StreamPart>& out);

  // The message so far. Arguments that are no JSON object, as of a cut call, are shown as {}.
  Json whole() const;

 private:
  void open(Json block, std::vector<StreamPart>& out);
  void close(std::vector<StreamPart>& out);
  void add_delta(const char* type, const char* key, const std::string& text,
                 std::vector<StreamPart>& out);
  bool is_open(std::string_view type) const;

  const MessagesInfo info_;
  const CallIdMaker new_call_id_;
  Json blocks_ = Json::array();  // the last one is open when open_
  bool open_ = false;
  bool pinged_ = false;
  int32_t calls_ = 0;
  std::string arguments_;  // of the open call
  Json stop_reason_;
  Json stop_sequence_;
  TokenUsage usage_;
};

}  // namespace lineshaft::recipe
