// TokenPieces: the ids of a growing answer -> pieces of text that say whether a control token or
// ordinary tokens wrote them. Knows no marker.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "core/vocab.h"
#include "recipe/detokenizer.h"
#include "recipe/parser/answer_parser.h"

namespace lineshaft::recipe {

class TokenPieces {
 public:
  explicit TokenPieces(std::shared_ptr<const Vocab> vocab)
      : vocab_(std::move(vocab)), detokenizer_(vocab_) {}

  // Hands the text of one token to the parser. The beginning of a code point waits for its end: it
  // is shown as U+FFFD before a control token and left out at the end of the answer.
  void push(TokenId token, AnswerParser& parser, std::vector<AnswerEvent>& out);

 private:
  std::shared_ptr<const Vocab> vocab_;
  Detokenizer detokenizer_;
};

}  // namespace lineshaft::recipe
