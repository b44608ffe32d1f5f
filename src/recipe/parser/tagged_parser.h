// TaggedParser: the answers of models whose chat template says how: <think>reasoning</think>, and
// calls as JSON, between <tool_call> and </tool_call> (Hermes, Qwen) or as all of the answer
// (Llama 3). A call is given once it is whole; what is no call after all is content, to the byte.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe/parser/answer_parser.h"
#include "recipe/stop_matcher.h"

namespace lineshaft::recipe {

struct TaggedOptions {
  enum class Calls : uint8_t {
    kNone,
    kTagged,  // <tool_call>{"name": …, "arguments": {…}}</tool_call>, each call in its own tags
    kJson,    // {"name": …, "parameters": {…}}, several parted by semicolons
  };

  bool begins_in_reasoning = false;  // the prompt ends inside <think>
  bool reasoning = false;            // the answer may begin with <think>
  Calls calls = Calls::kNone;
  // These markers are tokens of the vocabulary: spelled in other tokens they are text.
  bool think_is_token = false;
  bool call_is_token = false;
  std::vector<std::string> stops = {};  // end the content; neither reasoning nor calls
};

class TaggedParser final : public AnswerParser {
 public:
  explicit TaggedParser(TaggedOptions options);

  void push(std::string_view text, Origin origin, std::vector<AnswerEvent>& out) override;
  void finish(std::vector<AnswerEvent>& out) override;
  bool in_reasoning() const override { return state_ == State::kReasoning; }
  bool done() const override { return state_ == State::kDone; }

 private:
  enum class State : uint8_t {
    kBegin,      // white space so far
    kReasoning,
    kContent,
    kCall,       // after <tool_call>
    kJson,       // the whole answer may be calls
    kDone,
  };
  // Where a marker begins, or may once more is known; `whole` tells which.
  struct Found {
    size_t at = std::string::npos;
    bool whole = false;
  };

  bool step(std::vector<AnswerEvent>& out);
  bool step_begin(std::vector<AnswerEvent>& out);
  bool step_reasoning(std::vector<AnswerEvent>& out);
  bool step_content(std::vector<AnswerEvent>& out);
  bool step_call(std::vector<AnswerEvent>& out);
  bool step_json();
  Found find(std::string_view marker, bool is_token, size_t from) const;
  Found matches(std::string_view marker, bool is_token, size_t at) const;
  void drop(size_t bytes);
  void emit(AnswerEvent::Kind kind, std::string_view text, std::vector<AnswerEvent>& out);
  void emit_content(std::string_view text, std::vector<AnswerEvent>& out);
  bool emit_calls(std::string_view json, std::vector<AnswerEvent>& out);

  const TaggedOptions options_;
  StopMatcher stops_;
  State state_ = State::kBegin;
  std::string held_;     // not worked off yet
  std::string origins_;  // of each byte of it
  size_t tag_end_ = 0;   // of held_, in a call: white space and the tag before its JSON
  size_t searched_ = 0;  // of held_, bytes that are known to hold no end of the call
  bool trims_ = true;    // white space at the beginning of a text is dropped
};

}  // namespace lineshaft::recipe
