// AnswerParser: what a model says, piece by piece -> reasoning, content and tool calls. One for
// each way of writing calls (dsml_parser.h, tagged_parser.h). No dialect, no reply, no tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  std::vector<std::string> stops = {};  // end the content; neither reasoning nor calls
};

// Total: any pieces give events, in time linear in their bytes times the stop strings. The events,
// joined, don't depend on how the text is cut into pieces.
class AnswerParser {
 public:
  // kPlain text can't be part of a marker that the model writes as a control token; kUnknown can
  // (a backend that gives text alone).
  enum class Origin : char { kPlain, kControl, kUnknown };

  virtual ~AnswerParser() = default;

  // Appends what is certain now to `out`; texts in a row are joined.
  virtual void push(std::string_view text, Origin origin, std::vector<AnswerEvent>& out) = 0;

  // The model has ended: what was held back. Calls that are cut stay as they are.
  virtual void finish(std::vector<AnswerEvent>& out) = 0;

  // Calls whose name is known.
  int32_t calls() const { return calls_; }
  // Index of the stop string that ended the content; what comes after it is left out.
  std::optional<int32_t> stop() const { return stop_; }
  // What comes next is reasoning.
  virtual bool in_reasoning() const = 0;
  // Nothing more will come of further pieces.
  virtual bool done() const = 0;

 protected:
  // Appends an event; texts in a row are joined, an empty one is nothing.
  static void emit(AnswerEvent::Kind kind, std::string_view text, std::vector<AnswerEvent>& out) {
    using Kind = AnswerEvent::Kind;
    if (text.empty() && kind != Kind::kCall) return;
    const bool is_text = kind == Kind::kReasoning || kind == Kind::kContent;
    if (is_text && !out.empty() && out.back().kind == kind) {
      out.back().text += text;
    } else {
      out.push_back({kind, std::string(text)});
    }
  }

  int32_t calls_ = 0;
  std::optional<int32_t> stop_;
};

}  // namespace lineshaft::recipe
