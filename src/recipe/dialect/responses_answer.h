// ResponsesAnswer: one parsed answer -> the events and the response of OpenAI's Responses API.
// Knows no HTTP and no store. Source: the OpenAI API reference, Responses streaming events.
#pragma once

#include <string>
#include <vector>

#include "recipe/dialect/stream_part.h"
#include "recipe/parser/answer_parser.h"

namespace lineshaft::recipe {

struct ResponsesInfo {
  std::string id;            // "resp_..."; ids of items are made from it
  std::string model;         // as the request named it
  int64_t created_at = 0;    // Unix seconds
  Json request = Json::object();  // the body, for the fields that a response repeats
  bool store = false;             // whether the response is kept
  std::vector<std::string> warnings = {};  // of the request; part of the response
};

// In a stream: begin(), next() for each event of the parser, finish() or fail(). A whole reply
// needs the same calls, then whole(). What is appended is ready to be sent.
class ResponsesAnswer {
 public:
  ResponsesAnswer(ResponsesInfo info, CallIdMaker new_call_id);

  void begin(std::vector<StreamPart>& out);
  // `logprobs`: of the tokens of a text, in OpenAI's form; an empty array when none were asked for.
  void next(const AnswerEvent& event, std::vector<StreamPart>& out, Json logprobs = Json::array());
  // `completed_at` in Unix seconds.
  void finish(const AnswerEnd& end, int64_t completed_at, std::vector<StreamPart>& out);
  // The answer was broken off by an error; `code` is one of OpenAI's, "server_error" say.
  void fail(std::string_view code, std::string_view message, std::vector<StreamPart>& out);

  // The response so far.
  Json whole() const;

 private:
  void append(const char* type, Json rest, std::vector<StreamPart>& out);
  void open(Json item, std::vector<StreamPart>& out);
  void open_part(const char* type, std::vector<StreamPart>& out);
  void close(std::string_view status, std::vector<StreamPart>& out);
  void close_part(std::vector<StreamPart>& out);
  void add_delta(const char* type, const std::string& text, std::vector<StreamPart>& out,
                 const Json* logprobs = nullptr);
  bool is_open(std::string_view type) const;
  std::string item_id(std::string_view prefix) const;
  void open_call(const std::string& name, std::vector<StreamPart>& out);

  const ResponsesInfo info_;
  const CallIdMaker new_call_id_;
  Json response_;                // without its output
  Json items_ = Json::array();   // the last one is open when open_
  bool open_ = false;
  int32_t calls_ = 0;
  int64_t sequence_ = 0;
};

}  // namespace lineshaft::recipe
