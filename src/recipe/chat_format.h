// ChatFormat: how one model is talked to: a conversation becomes a prompt, what the model says
// becomes an answer, and what requests may ask for. Knows no dialect.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "recipe/conversation.h"
#include "recipe/dialect/generation.h"
#include "recipe/encoding/chat_encoder.h"
#include "recipe/parser/answer_parser.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

// Immutable; every function may be called by many threads at once.
struct ChatFormat {
  // How conversations become pieces of a prompt.
  std::shared_ptr<const ChatEncoder> encoder;

  // The prompt, ending where the answer begins. kInvalidArgument, with a sentence for the user, for
  // turns that the model's template refuses.
  std::function<StatusOr<std::vector<TokenId>>(const Conversation&)> encode;

  // A parser for one answer to this conversation; `stops` end its content. Empty: all that the
  // model says is content.
  std::function<std::unique_ptr<AnswerParser>(const Conversation&, std::vector<std::string> stops)>
      parser;

  Abilities abilities;
};

// A native family by its name, with the errors of model_format().
StatusOr<ChatFormat> chat_format_by_name(std::string_view name,
                                         std::shared_ptr<const Tokenizer> tokenizer);

// By the model's own template, with the arguments and errors of make_chat_encoder().
StatusOr<ChatFormat> chat_format_of_template(std::shared_ptr<const Tokenizer> tokenizer,
                                             std::string_view chat_template,
                                             std::string_view model_name,
                                             std::function<int64_t()> unix_seconds);

}  // namespace lineshaft::recipe
