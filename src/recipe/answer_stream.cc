#include "recipe/answer_stream.h"

#include <deque>
#include <utility>

#include "base/utf8.h"
#include "recipe/detokenizer.h"
#include "recipe/parser/token_pieces.h"
#include "recipe/stop_matcher.h"

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

class ContentStream final : public AnswerStream {
 public:
  ContentStream(std::shared_ptr<const Vocab> vocab, const std::vector<std::string>& stops,
                bool logprobs, size_t text_offset)
      : detokenizer_(std::move(vocab), Detokenizer::ControlTokens::kHide),
        stops_(stops),
        logprobs_(logprobs),
        text_points_(text_offset) {}

  AnswerDelta push(TokenEvent&& event) override {
    AnswerDelta delta;
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
    take(ready, delta);
    release(delta, false);
    if (stopped_) pending_.clear();  // they are part of the stop string
    return delta;
  }

  AnswerDelta finish() override {
    AnswerDelta delta;
    if (stopped_) return delta;
    // The last bytes of a cut code point are text too, and may even end a stop string.
    StopMatcher::Result ready = stops_.push(detokenizer_.finish());
    if (!ready.matched) ready.text += stops_.finish();
    take(ready, delta);
    release(delta, !stopped_);
    return delta;
  }

  std::optional<int32_t> stop() const override { return stop_; }

 private:
  struct Pending {
    AnswerToken token;
    size_t first_byte;  // of the text of the answer
  };

  void take(StopMatcher::Result& ready, AnswerDelta& delta) {
    sent_bytes_ += ready.text.size();
    if (!ready.text.empty()) delta.events.push_back({Kind::kContent, std::move(ready.text)});
    delta.ended = stopped_ = ready.matched;
    if (ready.matched) stop_ = ready.stop;
  }

  // Tokens go out with the text that they begin; one without text goes with what follows it.
  void release(AnswerDelta& delta, bool all) {
    while (!pending_.empty() && (all || pending_.front().first_byte < sent_bytes_)) {
      delta.tokens.push_back(std::move(pending_.front().token));
      pending_.pop_front();
    }
  }

  Detokenizer detokenizer_;
  StopMatcher stops_;
  const bool logprobs_;
  std::deque<Pending> pending_;  // tokens whose text is held back
  size_t text_bytes_ = 0;        // detokenized so far
  size_t text_points_;           // the same in code points
  size_t sent_bytes_ = 0;        // of these, handed out
  bool stopped_ = false;
  std::optional<int32_t> stop_;
};

class ParsedStream final : public AnswerStream {
 public:
  ParsedStream(std::shared_ptr<const Vocab> vocab, std::unique_ptr<AnswerParser> parser,
               bool logprobs)
      : vocab_(std::move(vocab)),
        pieces_(vocab_),
        parser_(std::move(parser)),
        logprobs_(logprobs) {}

  AnswerDelta push(TokenEvent&& event) override {
    AnswerDelta delta;
    if (parser_->done()) return delta;
    ++token_count_;
    const bool reasoned = parser_->in_reasoning();
    pieces_.push(event.token, *parser_, delta.events);
    if (reasoned && parser_->in_reasoning()) ++reasoning_count_;
    if (logprobs_) {
      if (!is_marker(event.token, delta.events)) {
        held_.push_back({event.token, event.logprob, std::move(event.top), 0});
      }
      release(delta);
    }
    delta.ended = parser_->done();
    return delta;
  }

  AnswerDelta finish() override {
    AnswerDelta delta;
    if (parser_->done()) return delta;
    parser_->finish(delta.events);
    release(delta);
    return delta;
  }

  std::optional<int32_t> stop() const override { return parser_->stop(); }

 private:
  // A control token that is no part of a text.
  bool is_marker(TokenId token, const std::vector<AnswerEvent>& events) const {
    if (token < 0 || token >= vocab_->size()) return true;
    const auto index = static_cast<size_t>(token);
    const TokenKind kind = vocab_->kinds[index];
    if (kind != TokenKind::kControl && kind != TokenKind::kAdded) return false;
    return events.empty() || !events.back().text.ends_with(vocab_->bytes[index]);
  }

  // Tokens wait until it is known what they are part of.
  void release(AnswerDelta& delta) {
    if (delta.events.empty()) return;
    const Kind kind = delta.events.front().kind;
    auto* out = kind == Kind::kReasoning ? &delta.reasoning_tokens : &delta.tokens;
    if (kind == Kind::kReasoning || kind == Kind::kContent) {
      for (AnswerToken& token : held_) out->push_back(std::move(token));
    }
    held_.clear();
  }

  std::shared_ptr<const Vocab> vocab_;
  TokenPieces pieces_;
  std::unique_ptr<AnswerParser> parser_;
  const bool logprobs_;
  std::vector<AnswerToken> held_;
};

}  // namespace

std::unique_ptr<AnswerStream> make_content_stream(std::shared_ptr<const Vocab> vocab,
                                                  const std::vector<std::string>& stops,
                                                  bool logprobs, size_t text_offset) {
  return std::make_unique<ContentStream>(std::move(vocab), stops, logprobs, text_offset);
}

std::unique_ptr<AnswerStream> make_parsed_stream(std::shared_ptr<const Vocab> vocab,
                                                 std::unique_ptr<AnswerParser> parser,
                                                 bool logprobs) {
  return std::make_unique<ParsedStream>(std::move(vocab), std::move(parser), logprobs);
}

}  // namespace lineshaft::recipe
