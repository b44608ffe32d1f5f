// ChatTemplate: the encoder of any model whose file carries a chat template, by rendering it. Text
// of a conversation stays text through every filter of the template: only what the template itself
// spells can become a control token.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/encoding/chat_encoder.h"
#include "recipe/encoding/pieces.h"
#include "recipe/template/template.h"

namespace lineshaft::recipe {

// The prompt that a rendered text is: control tokens where scaffolding spells them, all else plain.
std::vector<Piece> template_pieces(const OriginText& text, const Tokenizer& tokenizer);

class ChatTemplate final : public ChatEncoder {
 public:
  // The errors of jinja::Template::parse. `unix_seconds` gives the time that the template may show.
  static StatusOr<std::shared_ptr<const ChatTemplate>> make(
      std::shared_ptr<const Tokenizer> tokenizer, std::string_view text,
      std::function<int64_t()> unix_seconds);

  StatusOr<std::vector<Piece>> pieces(const Conversation& conversation,
                                      bool open_answer = true) const override;

 private:
  ChatTemplate(std::shared_ptr<const Tokenizer> tokenizer,
               std::shared_ptr<const jinja::Template> text, bool asks_thinking,
               std::function<int64_t()> unix_seconds);

  const std::shared_ptr<const jinja::Template> template_;
  const bool asks_thinking_;  // the template reads enable_thinking
  const std::function<int64_t()> unix_seconds_;
};

}  // namespace lineshaft::recipe
