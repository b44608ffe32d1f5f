// ChatEncoder: Conversation -> prompt tokens, as the model's own chat template has it. Text of
// users is always encoded as plain text: only the encoder itself makes control tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "recipe/conversation.h"
#include "recipe/encoding/pieces.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

// Immutable; every method may be called by many threads at once.
class ChatEncoder {
 public:
  virtual ~ChatEncoder() = default;

  // The prompt, ending where the assistant's next words begin (open_answer), or after the last
  // turn. kInvalidArgument, with a sentence for the user, for turns that the model's template
  // refuses: an order of roles, say.
  virtual StatusOr<std::vector<Piece>> pieces(const Conversation& conversation,
                                              bool open_answer = true) const = 0;

  // The tokens of these pieces.
  StatusOr<std::vector<TokenId>> encode(const Conversation& conversation,
                                        bool open_answer = true) const;

 protected:
  explicit ChatEncoder(std::shared_ptr<const Tokenizer> tokenizer);

  const std::shared_ptr<const Tokenizer> tokenizer_;
};

// The encoder for a model with this chat template (tokenizer.chat_template of its file; may be
// empty): a native one where one knows the template, else the template itself. `unix_seconds` gives
// the time for templates that show the date. kUnimplemented: there is no template, or it uses what
// our interpreter lacks; kInvalidArgument: it is none. The sentence is for users, `model_name`
// appears in it.
StatusOr<std::shared_ptr<const ChatEncoder>> make_chat_encoder(
    std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_template,
    std::string_view model_name, std::function<int64_t()> unix_seconds);

}  // namespace lineshaft::recipe
