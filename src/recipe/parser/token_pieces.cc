#include "recipe/parser/token_pieces.h"

#include <string>

namespace lineshaft::recipe {

void TokenPieces::push(TokenId token, AnswerParser& parser, std::vector<AnswerEvent>& out) {
  using Origin = AnswerParser::Origin;
  if (token < 0 || token >= vocab_->size()) return;
  const TokenKind kind = vocab_->kinds[static_cast<size_t>(token)];
  if (kind != TokenKind::kControl && kind != TokenKind::kAdded) {
    parser.push(detokenizer_.push(token), Origin::kPlain, out);
    return;
  }
  parser.push(detokenizer_.finish(), Origin::kPlain, out);
  parser.push(vocab_->bytes[static_cast<size_t>(token)], Origin::kControl, out);
}

}  // namespace lineshaft::recipe
