// AnswerParser: what a model says, piece by piece -> reasoning, content and tool calls. Knows the
// markers of DeepSeek V3.2, V4 and V4.1 (DSML). No dialect, no JSON of a reply, no tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/stop_matcher.h"

namespace lineshaft::recipe {

// One step of an answer. Texts only ever grow: joined in order they are the whole.
struct AnswerEvent {
  enum class Kind : uint8_t {
    kReasoning,  // text
    kContent,    // text
    kCall,       // a call begins; text is the tool's name
    kArguments,  // text of the JSON object of the last call
  };
  Kind kind = Kind::kContent;
  std::string text;

  friend bool operator==(const AnswerEvent&, const AnswerEvent&) = default;
};

struct ParserOptions {
  enum class Start : uint8_t {
    kContent,
    kReasoning,
    kContentGoesOn,    // the prompt ends inside the content: nothing is trimmed
    kReasoningGoesOn,
    kCalls,            // the prompt ends inside a block of calls
  };
  Start start = Start::kContent;
  bool tools = false;              // a block of calls is one, not text
  bool json = false;               // content is one JSON value; a fence around it is dropped
  std::vector<std::string> stops;  // end the content; neither reasoning nor calls
};

// Total: any pieces give events, in time linear in their bytes times the stop strings. The events,
// joined, don't depend on how the text is cut into pieces.
class AnswerParser {
 public:
  // kPlain text can't be part of a marker that the model writes as a control token; kUnknown can
  // (a backend that gives text alone).
  enum class Origin : char { kPlain, kControl, kUnknown };

  explicit AnswerParser(ParserOptions options);

  // Appends what is certain now to `out`; texts in a row are joined.
  void push(std::string_view text, Origin origin, std::vector<AnswerEvent>& out);

  // The model has ended: what was held back. Calls that are cut stay as they are.
  void finish(std::vector<AnswerEvent>& out);

  // Calls whose name is known.
  int32_t calls() const { return calls_; }
  // Index of the stop string that ended the content; what comes after it is left out.
  std::optional<int32_t> stop() const { return stop_; }
  // What comes next is reasoning.
  bool in_reasoning() const { return state_ == State::kReasoning; }
  // Nothing more will come of further pieces.
  bool done() const { return state_ == State::kDone; }

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
  void emit(AnswerEvent::Kind kind, std::string_view text, std::vector<AnswerEvent>& out);
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
  int32_t calls_ = 0;
  std::optional<int32_t> stop_;
};

}  // namespace lineshaft::recipe
