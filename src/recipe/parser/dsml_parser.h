// DsmlParser: the answers of DeepSeek V3.2, V4 and V4.1, whose calls are written in DSML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe/parser/answer_parser.h"
#include "recipe/stop_matcher.h"

namespace lineshaft::recipe {

class DsmlParser final : public AnswerParser {
 public:
  explicit DsmlParser(ParserOptions options);

  void push(std::string_view text, Origin origin, std::vector<AnswerEvent>& out) override;
  void finish(std::vector<AnswerEvent>& out) override;
  bool in_reasoning() const override { return state_ == State::kReasoning; }
  bool done() const override { return state_ == State::kDone; }

 private:
  enum class State : uint8_t {
    kReasoning,
    kContent,
    kBeforeJson,
    kJson,
    kCalls,      // between calls
    kName,
    kArguments,  // between parameters
    kKey,
    kIsString,   // the attribute that says so
    kValue,      // a string
    kRawValue,   // JSON
    kDone,
  };
  struct Marker;
  struct Match;

  bool step(std::vector<AnswerEvent>& out);
  bool step_text(std::vector<AnswerEvent>& out);
  bool step_before_json();
  bool step_json(std::vector<AnswerEvent>& out);
  bool step_calls();
  bool step_name(std::vector<AnswerEvent>& out);
  bool step_arguments(std::vector<AnswerEvent>& out);
  bool step_key(std::vector<AnswerEvent>& out);
  bool step_is_string(std::vector<AnswerEvent>& out);
  bool step_value(std::vector<AnswerEvent>& out);

  Match match(const Marker& marker, size_t at) const;
  Match match_after_breaks(const Marker& marker, size_t at) const;
  size_t last_skipped(size_t at) const;
  // Looks for the first of the markers; index is npos when there is none.
  Match find(const Marker* markers, size_t count) const;
  void drop(size_t bytes);
  void emit_text(size_t bytes, std::vector<AnswerEvent>& out);
  void emit_content(std::string_view text, std::vector<AnswerEvent>& out);
  void emit_string_part(std::string_view text, std::vector<AnswerEvent>& out);
  void end_text(std::vector<AnswerEvent>& out);
  void end_raw_value(std::vector<AnswerEvent>& out);
  void begin_content();

  const ParserOptions options_;
  StopMatcher stops_;
  State state_ = State::kContent;
  std::string held_;     // bytes that a marker may still need
  std::string origins_;  // of each of them
  std::string part_;     // a name, key or raw value that is not complete
  bool trims_ = true;    // line breaks at the beginning of the text are dropped
  bool any_parameter_ = false;
};

}  // namespace lineshaft::recipe
