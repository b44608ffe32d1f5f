// Pieces: a prompt as text whose control tokens are marked by who wrote them, not by spelling.
// Between request text and token ids there is no other way: only what an encoder adds with
// control() can become a control token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

struct Piece {
  bool control = false;  // one control token, spelled by text; else plain text
  std::string text;

  friend bool operator==(const Piece&, const Piece&) = default;
};

class PieceList {
 public:
  // One control token of the model's own format.
  void control(std::string_view spelling);
  // Text of any origin; neighbours join, so that a stretch of plain text is tokenized as a whole.
  void plain(std::string_view text);

  const std::vector<Piece>& pieces() const { return pieces_; }
  std::vector<Piece> take() && { return std::move(pieces_); }

 private:
  std::vector<Piece> pieces_;
};

// Appends the tokens of one piece. kUnimplemented, naming it, when the tokenizer lacks a control
// token.
Status append_piece(const Piece& piece, const Tokenizer& tokenizer, std::vector<TokenId>& ids);

// The tokens of the pieces. kUnimplemented, naming it, when the tokenizer lacks a control token.
StatusOr<std::vector<TokenId>> encode_pieces(const std::vector<Piece>& pieces,
                                             const Tokenizer& tokenizer);

}  // namespace lineshaft::recipe
