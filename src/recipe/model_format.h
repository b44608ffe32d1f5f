// ModelFormat: what belongs to one native family of models, under one name: how a conversation
// becomes a prompt, what requests may ask for, how the answer begins. Knows no dialect.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "recipe/conversation.h"
#include "recipe/dialect/generation.h"
#include "recipe/encoding/chat_encoder.h"
#include "recipe/parser/answer_parser.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

struct ModelFormat {
  std::shared_ptr<const ChatEncoder> encoder;
  Abilities abilities;
};

// deepseek_v3, deepseek_r1, deepseek_v31, deepseek_v4 or deepseek_v41. kNotFound: another name;
// kUnimplemented, naming it: a control token that the tokenizer lacks.
StatusOr<ModelFormat> model_format(std::string_view name,
                                   const std::shared_ptr<const Tokenizer>& tokenizer);

// How the answer to this conversation begins and ends, for models that write DSML.
ParserOptions parser_options(const Conversation& conversation, std::vector<std::string> stops);

}  // namespace lineshaft::recipe
