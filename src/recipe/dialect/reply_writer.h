// ReplyWriter: what every dialect does with an answer: the whole reply as JSON, or the events of a
// stream. Knows no HTTP and no bytes of server-sent events.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/answer.h"
#include "recipe/dialect/stream_part.h"

namespace lineshaft::recipe {

// One event of a stream: JSON on one line, and the name that goes with it; "": none.
struct ReplyEvent {
  std::string name;
  std::string data;
};
using ReplyEvents = std::vector<ReplyEvent>;

// A failure, in the words that dialects have for one; empty param and code are not known.
struct ReplyError {
  std::string_view message;
  std::string_view type;  // OpenAI's or Anthropic's
  std::string_view param;
  std::string_view code;
};

// Either whole(), or the functions of a stream: begin() once; event() any number of times and
// finish() once for each choice; then end(). fail() instead of what is left. `answer` is always the
// choice as it is after the event.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual std::string whole(std::span<const Answer> answers, const TokenUsage& usage) = 0;
  // `usage`: what is known by then.
  virtual void begin(ReplyEvents& out, const TokenUsage& usage) = 0;
  virtual void event(ReplyEvents& out, const Answer& answer, const AnswerEvent& event,
                     std::span<const AnswerToken> tokens) = 0;
  virtual void finish(ReplyEvents& out, const Answer& answer) = 0;
  virtual void end(ReplyEvents& out, const TokenUsage& usage) = 0;
  virtual void fail(ReplyEvents& out, const ReplyError& error) = 0;
};

}  // namespace lineshaft::recipe
