#include "recipe/chat_format.h"

#include <utility>

#include "recipe/model_format.h"

namespace lineshaft::recipe {

StatusOr<ChatFormat> chat_format_by_name(std::string_view name,
                                         std::shared_ptr<const Tokenizer> tokenizer) {
  LS_ASSIGN_OR_RETURN(ModelFormat model, model_format(name, tokenizer));
  ChatFormat format;
  format.abilities = model.abilities;
  format.encoder = model.encoder;
  format.encode = [encoder = std::move(model.encoder)](const Conversation& conversation) {
    return encoder->encode(conversation);
  };
  format.parser = [](const Conversation& conversation, std::vector<std::string> stops) {
    return std::make_unique<AnswerParser>(parser_options(conversation, std::move(stops)));
  };
  return format;
}

StatusOr<ChatFormat> chat_format_of_template(std::shared_ptr<const Tokenizer> tokenizer,
                                             std::string_view chat_template,
                                             std::string_view model_name,
                                             std::function<int64_t()> unix_seconds) {
  LS_ASSIGN_OR_RETURN(auto encoder, make_chat_encoder(std::move(tokenizer), chat_template,
                                                      model_name, std::move(unix_seconds)));
  ChatFormat format;
  format.encoder = encoder;
  format.encode = [encoder = std::move(encoder)](const Conversation& conversation) {
    return encoder->encode(conversation);
  };
  return format;
}

}  // namespace lineshaft::recipe
