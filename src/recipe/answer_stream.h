// AnswerStream: the token events of one choice -> text and log-probabilities that are ready to be
// sent. The one path for streams and whole replies: what it gives, joined, is the answer. Knows no
// dialect and no socket.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/token_event.h"
#include "core/vocab.h"
#include "recipe/answer.h"
#include "recipe/detokenizer.h"
#include "recipe/stop_matcher.h"

namespace lineshaft::recipe {

class AnswerStream {
 public:
  // `logprobs`: tokens are handed out too. `text_offset`: code points that come before the answer
  // (an echoed prompt).
  AnswerStream(std::shared_ptr<const Vocab> vocab, const std::vector<std::string>& stops,
               bool logprobs, size_t text_offset = 0);

  struct Delta {
    std::string text;                 // whole code points; may be empty
    std::vector<AnswerToken> tokens;  // those whose text begins before the end of `text`
    bool stopped = false;             // a stop string is complete: this is the end
  };

  // The next kToken event. After `stopped` further tokens give nothing.
  Delta push(TokenEvent&& event);

  // The answer has ended by itself: what was held back.
  Delta finish();

  // Tokens that were pushed, the ones that completed a stop string included.
  int32_t token_count() const { return token_count_; }

 private:
  struct Pending {
    AnswerToken token;
    size_t first_byte;  // of the text of the answer
  };
  void release(Delta& delta, bool all);

  Detokenizer detokenizer_;
  StopMatcher stops_;
  const bool logprobs_;
  std::deque<Pending> pending_;  // tokens whose text is held back
  size_t text_bytes_ = 0;        // detokenized so far
  size_t text_points_;           // the same in code points
  size_t sent_bytes_ = 0;        // of these, handed out
  int32_t token_count_ = 0;
  bool stopped_ = false;
};

}  // namespace lineshaft::recipe
