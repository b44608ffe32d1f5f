#include "api/order.h"

#include <algorithm>
#include <utility>

#include "api/constraint_gate.h"
#include "api/responses_fields.h"
#include "base/check.h"
#include "recipe/dialect/anthropic_messages.h"
#include "recipe/dialect/openai_chat.h"
#include "recipe/dialect/openai_completions.h"
#include "recipe/dialect/openai_responses.h"
#include "recipe/encoding/fill_in_middle.h"

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

// The field that the prompt of a dialogue comes from.
std::string_view dialogue_field(Dialect dialect) {
  return dialect == Dialect::kResponses ? "input" : "messages";
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

size_t text_bytes(const recipe::Conversation& conversation) {
  size_t bytes = 0;
  for (const auto& turn : conversation.turns) bytes += turn.content.size() + turn.reasoning.size();
  return bytes;
}

// Of the dialects that send a dialogue.
StatusOr<recipe::ChatOrder> read_dialogue(Dialect dialect, const Json& body,
                                          const recipe::DialectLimits& limits) {
  switch (dialect) {
    case Dialect::kMessages: return recipe::parse_anthropic_messages(body, limits);
    case Dialect::kResponses: return recipe::parse_openai_responses(body, limits);
    case Dialect::kChat:
    case Dialect::kCompletions: break;
  }
  return recipe::parse_openai_chat(body, limits);
}

// All but the check that the prompt fits.
StatusOr<Order> prepare_dialogue(Dialect dialect, Json body, const OrderContext& context,
                                 std::string_view tenant) {
  Order order;
  order.dialect = dialect;
  if (dialect == Dialect::kResponses) {
    LS_RETURN_IF_ERROR(read_response_fields(body, *context.responses, tenant, order));
  }
  LS_ASSIGN_OR_RETURN(auto parsed, read_dialogue(dialect, body, context.limits));
  LS_RETURN_IF_ERROR(check_model(parsed.generation.model, context.card));
  if (!context.chat.ok()) return context.chat.status();
  for (std::string& warning : order.generation.warnings.list()) {
    parsed.generation.warnings.add(std::move(warning));
  }
  order.generation = std::move(parsed.generation);
  LS_RETURN_IF_ERROR(check_constraints(dialect, parsed.conversation));
  const std::string_view field = dialogue_field(dialect);
  LS_RETURN_IF_ERROR(check_length(text_bytes(parsed.conversation), field, context));
  auto prompt = context.chat->encode(parsed.conversation);
  if (!prompt.ok()) return with_field(prompt.status(), field);
  OrderPart part;
  part.prompt = *std::move(prompt);
  if (context.turns != nullptr) {
    part.prompt = context.turns->restore(parsed.conversation, *context.chat,
                                         std::move(part.prompt));
  }
  order.parts.push_back(std::move(part));
  order.conversation = std::move(parsed.conversation);
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

// With a suffix: what asks for the text before it.
StatusOr<std::vector<TokenId>> encode_prompt(const std::string& text,
                                             const std::optional<std::string>& suffix,
                                             const OrderContext& context) {
  if (!suffix) return encode_text(text, *context.tokenizer);
  LS_RETURN_IF_ERROR(check_length(suffix->size(), "suffix", context));
  const auto pieces = recipe::fill_in_middle_pieces(*context.tokenizer, text, *suffix);
  LS_CHECK(pieces.has_value(), "a suffix was taken for a model that has no tokens for it");
  std::vector<TokenId> ids = encode_text("", *context.tokenizer);
  LS_ASSIGN_OR_RETURN(const auto words, recipe::encode_pieces(*pieces, *context.tokenizer));
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
      LS_ASSIGN_OR_RETURN(part.prompt, encode_prompt(*text, parsed.suffix, context));
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

StatusOr<Order> prepare_order(Dialect dialect, std::string_view body, const OrderContext& context,
                              std::string_view tenant) {
  LS_ASSIGN_OR_RETURN(Json json, parse_json(body));
  if (dialect == Dialect::kCompletions) return prepare_completions(json, context);
  LS_ASSIGN_OR_RETURN(Order order, prepare_dialogue(dialect, std::move(json), context, tenant));
  LS_RETURN_IF_ERROR(fit_context(order.parts.front(), dialogue_field(dialect), context.card,
                                 order.generation));
  return order;
}

StatusOr<int64_t> count_prompt_tokens(Dialect dialect, std::string_view body,
                                      const OrderContext& context, std::string_view tenant) {
  LS_ASSIGN_OR_RETURN(Json json, parse_json(body));
  LS_ASSIGN_OR_RETURN(const Order order,
                      prepare_dialogue(dialect, std::move(json), context, tenant));
  return order.prompt_tokens();
}

}  // namespace lineshaft::api
