// ChatMl: <|im_start|>role\ncontent<|im_end|>\n for each turn. The form of SmolLM2 and of ChatML
// files without a default system prompt.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "recipe/encoding/chat_encoder.h"

namespace lineshaft::recipe {

class ChatMl final : public ChatEncoder {
 public:
  // `default_system` begins every conversation whose first turn is not a system turn; "": nothing
  // does. The ids are those of <|im_start|> and <|im_end|>.
  ChatMl(std::shared_ptr<const Tokenizer> tokenizer, TokenId im_start, TokenId im_end,
         std::string default_system);

  // Any turns give a prompt.
  StatusOr<std::vector<Piece>> pieces(const Conversation& conversation,
                                      bool open_answer = true) const override;

 private:
  void append_turn(PieceList& out, std::string_view role, std::string_view content) const;

  const std::string im_start_;  // as the tokenizer spells them
  const std::string im_end_;
  const std::string default_system_;
};

}  // namespace lineshaft::recipe
