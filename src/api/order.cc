#include "api/order.h"

#include <algorithm>
#include <utility>

#include "recipe/dialect/openai_chat.h"
#include "recipe/dialect/openai_completions.h"

namespace lineshaft::api {
namespace {

Status check_model(const std::string& name, const ModelCard& card) {
  const auto& aliases = card.aliases;
  if (name == card.id || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
    return ok_status();
  }
  const Status status = not_found("the model '{}' does not exist here; '{}' does",
                                  recipe::shown(name), card.id);
  return with_reason(with_field(status, "model"), "model_not_found");
}

// Sets part.max_tokens; an answer always has room for one token.
Status fit_context(OrderPart& part, std::string_view field, const ModelCard& card,
                   recipe::GenerationOrder& generation) {
  const auto prompt = static_cast<int64_t>(part.prompt.size());
  const int64_t room = card.context_tokens - prompt;
  if (room < 1) {
    return with_field(
        out_of_range("the prompt has {} tokens; the context of {} tokens must hold it and at least "
                     "one token of the answer",
                     prompt, card.context_tokens),
        field);
  }
  const int64_t wanted = generation.sampling.max_tokens;
  part.max_tokens = static_cast<int32_t>(wanted == 0 ? room : std::min(wanted, room));
  if (wanted > room) {
    generation.warnings.add(
        fmt::format("'max_tokens' is lowered from {} to {}: the context has {} tokens and the "
                    "prompt {}",
                    wanted, room, card.context_tokens, prompt));
  }
  return ok_status();
}

Status check_length(size_t text_bytes, std::string_view field, const OrderContext& context) {
  if (text_bytes <= context.text_bytes_max) return ok_status();
  return with_field(
      out_of_range("the prompt has {} bytes, more than the longest tokens could hold in the "
                   "context of {} tokens",
                   text_bytes, context.card.context_tokens),
      field);
}

StatusOr<Order> prepare_chat(const Json& body, const OrderContext& context) {
  LS_ASSIGN_OR_RETURN(auto parsed, recipe::parse_openai_chat(body, context.limits));
  LS_RETURN_IF_ERROR(check_model(parsed.generation.model, context.card));
  if (!context.chat.ok()) return context.chat.status();
  Order order;
  order.dialect = Dialect::kChat;
  order.generation = std::move(parsed.generation);
  OrderPart part;
  size_t bytes = 0;
  for (const auto& turn : parsed.conversation.turns) bytes += turn.content.size();
  LS_RETURN_IF_ERROR(check_length(bytes, "messages", context));
  auto prompt = (*context.chat)->encode(parsed.conversation);
  if (!prompt.ok()) return with_field(prompt.status(), "messages");
  part.prompt = *std::move(prompt);
  LS_RETURN_IF_ERROR(fit_context(part, "messages", context.card, order.generation));
  order.parts.push_back(std::move(part));
  return order;
}

// Raw text begins with BOS as the model's file says; control tokens that it spells stay text.
std::vector<TokenId> encode_text(const std::string& text, const recipe::Tokenizer& tokenizer) {
  const auto vocab = tokenizer.vocab();
  std::vector<TokenId> ids;
  if (vocab->add_bos && vocab->bos >= 0) ids.push_back(vocab->bos);
  const auto words = tokenizer.encode(text, recipe::Tokenizer::Mode::kPlain);
  ids.insert(ids.end(), words.begin(), words.end());
  return ids;
}

StatusOr<Order> prepare_completions(const Json& body, const OrderContext& context) {
  LS_ASSIGN_OR_RETURN(auto parsed, recipe::parse_openai_completions(body, context.limits));
  LS_RETURN_IF_ERROR(check_model(parsed.generation.model, context.card));
  Order order;
  order.dialect = Dialect::kCompletions;
  order.generation = std::move(parsed.generation);
  for (auto& prompt : parsed.prompts) {
    OrderPart part;
    if (auto* text = std::get_if<std::string>(&prompt)) {
      LS_RETURN_IF_ERROR(check_length(text->size(), "prompt", context));
      part.prompt = encode_text(*text, *context.tokenizer);
      if (parsed.echo) part.echo = std::move(*text);
    } else {
      part.prompt = std::move(std::get<std::vector<TokenId>>(prompt));
      if (parsed.echo) part.echo = context.tokenizer->decode(part.prompt);
    }
    if (part.prompt.empty()) {
      return with_field(invalid_argument("'prompt' has no tokens"), "prompt");
    }
    LS_RETURN_IF_ERROR(fit_context(part, "prompt", context.card, order.generation));
    order.parts.push_back(std::move(part));
  }
  return order;
}

}  // namespace

size_t text_bytes_max(const Vocab& vocab, int32_t context_tokens) {
  size_t longest = 1;
  for (size_t i = 0; i < vocab.bytes.size(); ++i) {
    if (vocab.kinds[i] == TokenKind::kControl) continue;
    longest = std::max(longest, vocab.bytes[i].size());
  }
  return longest * static_cast<size_t>(context_tokens);
}

int64_t Order::prompt_tokens() const {
  int64_t total = 0;
  for (const OrderPart& part : parts) total += static_cast<int64_t>(part.prompt.size());
  return total;
}

StatusOr<Order> prepare_order(Dialect dialect, std::string_view body,
                              const OrderContext& context) {
  LS_ASSIGN_OR_RETURN(const Json json, parse_json(body));
  return dialect == Dialect::kChat ? prepare_chat(json, context)
                                   : prepare_completions(json, context);
}

}  // namespace lineshaft::api
