// What an answer is made of once it is text again: the common form that replies are written from.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/token_event.h"
#include "recipe/parser/answer_parser.h"

namespace lineshaft::recipe {

// A generated token with its log-probability and the alternatives (descending).
struct AnswerToken {
  TokenId token = 0;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;
  size_t text_offset = 0;  // code points of the answer's text before this token's
};

// What one token, or the end, adds to an answer. Tokens are handed out only where log-probabilities
// were asked for; those of markers and of calls belong to neither text.
struct AnswerDelta {
  std::vector<AnswerEvent> events;
  std::vector<AnswerToken> tokens;            // of the content
  std::vector<AnswerToken> reasoning_tokens;
  bool ended = false;  // the answer is complete whatever the model says next
};

// Why an answer ends.
enum class Ending : uint8_t {
  kStop,        // the model ended it
  kStopString,  // see Answer::stop
  kCalls,       // the model ended it after at least one call
  kLength,
};

// One choice: as much of it as there is.
struct Answer {
  int32_t index = 0;
  std::vector<AnswerEvent> events;            // neighbours of one kind are joined
  std::vector<std::string> call_ids;          // of the events that begin a call, in order
  std::vector<AnswerToken> tokens;            // filled when logprobs were asked for
  std::vector<AnswerToken> reasoning_tokens;
  Ending ending = Ending::kStop;
  std::string stop;                           // of kStopString

  // Adds an event; that of a call comes with its id.
  void add(const AnswerEvent& event, std::string call_id = {}) {
    const bool call = event.kind == AnswerEvent::Kind::kCall;
    if (call) call_ids.push_back(std::move(call_id));
    if (!call && !events.empty() && events.back().kind == event.kind) {
      events.back().text += event.text;
    } else {
      events.push_back(event);
    }
  }

  // All text of one kind.
  std::string text_of(AnswerEvent::Kind kind) const {
    std::string out;
    for (const AnswerEvent& event : events) {
      if (event.kind == kind) out += event.text;
    }
    return out;
  }
};

}  // namespace lineshaft::recipe
