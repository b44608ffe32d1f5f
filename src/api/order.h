// Order: a generation request that is parsed, checked and tokenized, ready for the RequestSink.
// Pure functions: any thread may prepare one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "recipe/dialect/generation.h"
#include "recipe/encoding/chat_encoder.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::api {

// What the API says about the model that it serves.
struct ModelCard {
  std::string id;                    // the name that requests give
  std::vector<std::string> aliases;  // other names that are taken for it
  int64_t created = 0;               // unix seconds
  int32_t context_tokens = 0;        // prompt and answer together
  std::string family;                // "llama"
  std::string quantization;          // "Q4_1"
  std::string system_fingerprint;    // changes when answers may: model, profile, version
};

// What preparing needs; immutable and shared.
struct OrderContext {
  std::shared_ptr<const recipe::Tokenizer> tokenizer;
  StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat;  // or why chat is refused
  ModelCard card;
  recipe::DialectLimits limits;
  // Bytes of as many of the longest tokens as the context holds: a longer text can't fit, and is
  // refused without the time that it takes to tokenize it.
  size_t text_bytes_max = SIZE_MAX;
};

size_t text_bytes_max(const Vocab& vocab, int32_t context_tokens);

enum class Dialect : uint8_t { kChat, kCompletions };

struct OrderPart {
  std::vector<TokenId> prompt;
  int32_t max_tokens = 0;  // fits the context beside the prompt
  std::string echo;        // the answer begins with it
};

struct Order {
  Dialect dialect = Dialect::kChat;
  recipe::GenerationOrder generation;
  std::vector<OrderPart> parts;  // one for chat, one a prompt for completions

  int64_t prompt_tokens() const;
};

// kInvalidArgument (with the field), kNotFound (model), kOutOfRange (the prompt exceeds the
// context), kUnimplemented (no chat template).
StatusOr<Order> prepare_order(Dialect dialect, std::string_view body, const OrderContext& context);

}  // namespace lineshaft::api
