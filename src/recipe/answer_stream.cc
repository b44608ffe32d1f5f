#include "recipe/answer_stream.h"

#include <utility>

#include "base/utf8.h"

namespace lineshaft::recipe {

AnswerStream::AnswerStream(std::shared_ptr<const Vocab> vocab,
                           const std::vector<std::string>& stops, bool logprobs,
                           size_t text_offset)
    : detokenizer_(std::move(vocab), Detokenizer::ControlTokens::kHide),
      stops_(stops),
      logprobs_(logprobs),
      text_points_(text_offset) {}

AnswerStream::Delta AnswerStream::push(TokenEvent&& event) {
  Delta delta;
  if (stopped_) return delta;
  ++token_count_;
  if (logprobs_) {
    pending_.push_back({{event.token, event.logprob, std::move(event.top), text_points_},
                        text_bytes_});
  }
  const std::string_view text = detokenizer_.push(event.token);
  text_bytes_ += text.size();
  text_points_ += count_code_points(text);
  StopMatcher::Result ready = stops_.push(text);
  delta.text = std::move(ready.text);
  sent_bytes_ += delta.text.size();
  delta.stopped = stopped_ = ready.matched;
  release(delta, false);
  if (stopped_) pending_.clear();  // they are part of the stop string
  return delta;
}

AnswerStream::Delta AnswerStream::finish() {
  Delta delta;
  if (stopped_) return delta;
  // The last bytes of a cut code point are text too, and may even end a stop string.
  StopMatcher::Result ready = stops_.push(detokenizer_.finish());
  delta.text = std::move(ready.text);
  if (!ready.matched) delta.text += stops_.finish();
  sent_bytes_ += delta.text.size();
  delta.stopped = stopped_ = ready.matched;
  release(delta, !stopped_);
  return delta;
}

// Tokens go out with the text that they begin; one without text goes with what follows it.
void AnswerStream::release(Delta& delta, bool all) {
  while (!pending_.empty() && (all || pending_.front().first_byte < sent_bytes_)) {
    delta.tokens.push_back(std::move(pending_.front().token));
    pending_.pop_front();
  }
}

}  // namespace lineshaft::recipe
