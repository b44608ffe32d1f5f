#include "recipe/chat_format.h"

#include <utility>

#include "recipe/encoding/piece_cache.h"
#include "recipe/model_format.h"
#include "recipe/parser/dsml_parser.h"
#include "recipe/parser/tagged_parser.h"

namespace lineshaft::recipe {
namespace {

bool mentions(std::string_view text, std::string_view word) {
  return text.find(word) != text.npos;
}

// How the answers of a model with this template are written.
TaggedOptions answer_form(std::string_view chat_template, const Tokenizer& tokenizer) {
  using Calls = TaggedOptions::Calls;
  TaggedOptions form;
  form.reasoning = mentions(chat_template, "</think>");
  form.think_is_token = tokenizer.added_token("</think>") >= 0;
  form.call_is_token = tokenizer.added_token("<tool_call>") >= 0;
  if (!mentions(chat_template, "tools")) return form;
  if (mentions(chat_template, "<tool_call>")) {
    form.calls = Calls::kTagged;
  } else if (mentions(chat_template, "<|start_header_id|>") &&
             mentions(chat_template, "\"parameters\": ")) {
    form.calls = Calls::kJson;
  }
  return form;
}

// Whether prompts end inside the reasoning.
bool opens_reasoning(const ChatEncoder& encoder, bool thinking) {
  Conversation conversation;
  conversation.thinking = thinking;
  conversation.turns.push_back({Role::kUser, "?"});
  const auto pieces = encoder.pieces(conversation);
  if (!pieces.ok()) return false;
  std::string text;
  for (const Piece& piece : *pieces) text += piece.text;
  const size_t begin = text.rfind("<think>");
  return begin != text.npos && text.find("</think>", begin) == text.npos;
}

// Encodes with the pieces of earlier prompts at hand.
auto cached(std::shared_ptr<const ChatEncoder> encoder,
            std::shared_ptr<const Tokenizer> tokenizer) {
  return [encoder = std::move(encoder), cache = std::make_shared<PieceCache>(std::move(tokenizer))](
             const Conversation& conversation) -> StatusOr<std::vector<TokenId>> {
    LS_ASSIGN_OR_RETURN(const auto pieces, encoder->pieces(conversation));
    return cache->encode(pieces);
  };
}

}  // namespace

StatusOr<ChatFormat> chat_format_by_name(std::string_view name,
                                         std::shared_ptr<const Tokenizer> tokenizer) {
  LS_ASSIGN_OR_RETURN(ModelFormat model, model_format(name, tokenizer));
  ChatFormat format;
  format.abilities = model.abilities;
  format.encoder = model.encoder;
  format.encode = cached(format.encoder, std::move(tokenizer));
  format.parser = [](const Conversation& conversation, std::vector<std::string> stops) {
    return std::make_unique<DsmlParser>(parser_options(conversation, std::move(stops)));
  };
  return format;
}

StatusOr<ChatFormat> chat_format_of_template(std::shared_ptr<const Tokenizer> tokenizer,
                                             std::string_view chat_template,
                                             std::string_view model_name,
                                             std::function<int64_t()> unix_seconds) {
  const TaggedOptions form = answer_form(chat_template, *tokenizer);
  LS_ASSIGN_OR_RETURN(auto encoder, make_chat_encoder(tokenizer, chat_template,
                                                      model_name, std::move(unix_seconds)));
  ChatFormat format;
  format.encoder = encoder;
  format.abilities.tools = form.calls != TaggedOptions::Calls::kNone;
  format.abilities.reasoning = form.reasoning && mentions(chat_template, "enable_thinking");
  if (form.reasoning || format.abilities.tools) {
    format.parser = [form, told = opens_reasoning(*encoder, true),
                     untold = opens_reasoning(*encoder, false)](
                        const Conversation& conversation, std::vector<std::string> stops) {
      TaggedOptions options = form;
      options.begins_in_reasoning = conversation.thinking ? told : untold;
      if (!offers_tools(conversation)) options.calls = TaggedOptions::Calls::kNone;
      options.stops = std::move(stops);
      return std::make_unique<TaggedParser>(std::move(options));
    };
  }
  format.encode = cached(format.encoder, std::move(tokenizer));
  return format;
}

}  // namespace lineshaft::recipe
