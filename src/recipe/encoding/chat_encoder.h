// ChatEncoder: Conversation -> prompt tokens, as the model's own chat template has it. Text of
// users is always encoded as plain text: only the encoder itself makes control tokens.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "recipe/conversation.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

// Immutable; every method may be called by many threads at once.
class ChatEncoder {
 public:
  virtual ~ChatEncoder() = default;

  // The prompt, ending where the assistant's next words begin (open_answer), or after the last
  // turn. Total: any turns give a prompt.
  virtual std::vector<TokenId> encode(const Conversation& conversation,
                                      bool open_answer = true) const = 0;
};

// The encoder for a model with this chat template (tokenizer.chat_template of its file; may be
// empty). kUnimplemented: no native encoder knows the template; the sentence is for users.
// `model_name` appears in it.
StatusOr<std::shared_ptr<const ChatEncoder>> make_chat_encoder(
    std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_template,
    std::string_view model_name);

}  // namespace lineshaft::recipe
