// AnswerStream: the token events of one choice -> what is ready to be sent: text, reasoning, calls
// and log-probabilities. The one path for streams and whole replies: what it gives, joined, is the
// answer. Knows no dialect and no socket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/token_event.h"
#include "core/vocab.h"
#include "recipe/answer.h"

namespace lineshaft::recipe {

class AnswerStream {
 public:
  virtual ~AnswerStream() = default;

  // The next kToken event. After `ended` further tokens give nothing.
  virtual AnswerDelta push(TokenEvent&& event) = 0;

  // The model has said all: what was held back.
  virtual AnswerDelta finish() = 0;

  // Tokens that were pushed, the ones that completed a stop string included.
  int32_t token_count() const { return token_count_; }
  // Of these, those inside the reasoning.
  int32_t reasoning_count() const { return reasoning_count_; }
  // Index of the stop string that ended the answer.
  virtual std::optional<int32_t> stop() const = 0;

 protected:
  int32_t token_count_ = 0;
  int32_t reasoning_count_ = 0;
};

// All that the model says is content, up to the first of the stop strings. `logprobs`: tokens are
// handed out too. `text_offset`: code points that come before the answer (an echoed prompt).
std::unique_ptr<AnswerStream> make_content_stream(std::shared_ptr<const Vocab> vocab,
                                                  const std::vector<std::string>& stops,
                                                  bool logprobs, size_t text_offset = 0);

// What the model says, as the parser reads it.
std::unique_ptr<AnswerStream> make_parsed_stream(std::shared_ptr<const Vocab> vocab,
                                                 std::unique_ptr<AnswerParser> parser,
                                                 bool logprobs);

}  // namespace lineshaft::recipe
