#include "recipe/encoding/pieces.h"

namespace lineshaft::recipe {

void PieceList::control(std::string_view spelling) {
  pieces_.push_back({true, std::string(spelling)});
}

void PieceList::plain(std::string_view text) {
  if (text.empty()) return;
  if (pieces_.empty() || pieces_.back().control) {
    pieces_.push_back({false, std::string(text)});
  } else {
    pieces_.back().text += text;
  }
}

Status append_piece(const Piece& piece, const Tokenizer& tokenizer, std::vector<TokenId>& ids) {
  if (!piece.control) {
    const auto plain = tokenizer.encode(piece.text, Tokenizer::Mode::kPlain);
    ids.insert(ids.end(), plain.begin(), plain.end());
    return ok_status();
  }
  const TokenId id = tokenizer.added_token(piece.text);
  if (id < 0) return unimplemented("the tokenizer has no token '{}'", piece.text);
  ids.push_back(id);
  return ok_status();
}

StatusOr<std::vector<TokenId>> encode_pieces(const std::vector<Piece>& pieces,
                                             const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const Piece& piece : pieces) LS_RETURN_IF_ERROR(append_piece(piece, tokenizer, ids));
  return ids;
}

}  // namespace lineshaft::recipe
