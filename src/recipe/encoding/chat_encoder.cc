#include "recipe/encoding/chat_encoder.h"

#include <utility>

namespace lineshaft::recipe {

ChatEncoder::ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

StatusOr<std::vector<TokenId>> ChatEncoder::encode(const Conversation& conversation,
                                                   bool open_answer) const {
  LS_ASSIGN_OR_RETURN(const std::vector<Piece> prompt, pieces(conversation, open_answer));
  return encode_pieces(prompt, *tokenizer_);
}

}  // namespace lineshaft::recipe
