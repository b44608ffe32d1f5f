// Order: a generation request that is parsed, checked and tokenized, ready for the RequestSink.
// Any thread may prepare one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/dialect.h"
#include "api/response_store.h"
#include "base/json.h"
#include "base/status.h"
#include "recipe/chat_format.h"
#include "recipe/dialect/generation.h"
#include "recipe/tokenizer/tokenizer.h"
#include "recipe/turn_memory.h"

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

// What preparing needs; immutable and shared, but for what is kept, which locks itself.
struct OrderContext {
  std::shared_ptr<const recipe::Tokenizer> tokenizer;
  StatusOr<recipe::ChatFormat> chat;  // or why chat is refused
  ModelCard card;
  recipe::DialectLimits limits;
  // Bytes of as many of the longest tokens as the context holds: a longer text can't fit, and is
  // refused without the time that it takes to tokenize it.
  size_t text_bytes_max = SIZE_MAX;
  std::shared_ptr<ResponseStore> responses;
  std::shared_ptr<recipe::TurnMemory> turns;  // nullptr: nothing is remembered
};

size_t text_bytes_max(const Vocab& vocab, int32_t context_tokens);

struct OrderPart {
  std::vector<TokenId> prompt;
  int32_t max_tokens = 0;  // fits the context beside the prompt
  std::string echo;        // the answer begins with it
};

struct Order {
  Dialect dialect = Dialect::kChat;
  recipe::GenerationOrder generation;
  std::vector<OrderPart> parts;  // one for a dialogue, one a prompt for completions
  std::optional<recipe::Conversation> conversation;  // none for completions

  // Of Responses alone.
  Json body = Json::object();   // as it came, for the fields that a response repeats
  Json input = Json::array();   // the items of the whole dialogue
  bool store = false;           // the response is to be kept

  int64_t prompt_tokens() const;
};

// kInvalidArgument (with the field), kNotFound (model, response), kOutOfRange (the prompt exceeds
// the context), kUnimplemented (no chat template). `tenant` is whose stored responses are found.
StatusOr<Order> prepare_order(Dialect dialect, std::string_view body, const OrderContext& context,
                              std::string_view tenant = "");

// The order without what it would cost to answer it: no check that the prompt fits, and fields that
// only an answer needs may be missing.
StatusOr<int64_t> count_prompt_tokens(Dialect dialect, std::string_view body,
                                      const OrderContext& context, std::string_view tenant = "");

}  // namespace lineshaft::api
