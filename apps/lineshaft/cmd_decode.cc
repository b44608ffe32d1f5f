// lineshaft decode: what a model said, in pieces of text or tokens, to the replies of a dialect.
// A line is {"request": …, "parsing": …, "input": [{"ready": …}, {"text": …} or {"token_ids": …},
// …, {"finish": …}]}; parsing may be left out, then the request says it.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <random>
#include <utility>

#include "lineshaft/commands.h"
#include "lineshaft/decode_replies.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/recipe_setup.h"
#include "recipe/dialect/call_id.h"
#include "recipe/dialect/fields.h"
#include "recipe/dialect/logprobs.h"
#include "recipe/parser/dsml_parser.h"
#include "recipe/parser/tagged_parser.h"
#include "recipe/parser/token_pieces.h"

namespace lineshaft::app {
namespace {

using recipe::AnswerEvent;
using recipe::AnswerParser;
using recipe::ParserOptions;
using Start = ParserOptions::Start;

// One line, read: how to parse, and what.
struct Order {
  std::unique_ptr<AnswerParser> parser;
  std::vector<std::string> stops;
  ReplyStart start;
  const Json* request = nullptr;
  const Json* input = nullptr;
};

StatusOr<ParserOptions> explicit_options(const Json& parsing) {
  recipe::Warnings warnings;
  if (!parsing.is_object()) return invalid_argument("'parsing' is no object");
  recipe::Fields fields(parsing, "parsing", warnings);
  ParserOptions options;
  bool in_calls = false;
  std::string stage;
  LS_RETURN_IF_ERROR(fields.read_bool("parse_tool_calls", options.tools));
  LS_RETURN_IF_ERROR(fields.read_bool("starts_in_tool_calls", in_calls));
  LS_RETURN_IF_ERROR(fields.read_bool("parse_json_output", options.json));
  LS_RETURN_IF_ERROR(fields.read_string("thinking_initial_stage", stage));
  if (stage == "ReasoningStart") {
    options.start = Start::kReasoning;
  } else if (stage == "ReasoningContinuation") {
    options.start = Start::kReasoningGoesOn;
  } else if (stage == "ContentContinuation") {
    options.start = Start::kContentGoesOn;
  } else if (!stage.empty()) {
    return invalid_argument("'parsing.thinking_initial_stage' is not known: '{}'",
                            recipe::shown(stage));
  } else if (in_calls) {
    options.start = Start::kCalls;
  }
  const Json* stops = fields.take("stop_sequences");
  if (stops == nullptr) return options;
  if (!stops->is_array()) return invalid_argument("'parsing.stop_sequences' is no array");
  for (const Json& stop : *stops) {
    if (!stop.is_string()) return invalid_argument("'parsing.stop_sequences' holds no strings");
    options.stops.push_back(stop.get<std::string>());
  }
  return options;
}

// The model's own, or one that takes all for content.
std::unique_ptr<AnswerParser> parser_of(const recipe::ChatFormat& format,
                                        const recipe::Conversation& conversation,
                                        const std::vector<std::string>& stops) {
  if (format.parser) return format.parser(conversation, stops);
  return std::make_unique<recipe::TaggedParser>(recipe::TaggedOptions{.stops = stops});
}

StatusOr<Order> read_order(const RecipeSetup& setup, const Json& line) {
  if (!line.is_object()) return invalid_argument("expected an object");
  const auto request = line.find("request");
  if (request == line.end()) return invalid_argument("'request' is missing");
  LS_ASSIGN_OR_RETURN(const recipe::ChatOrder chat, setup.read(*request));
  Order order;
  order.request = &*request;
  if (const auto parsing = line.find("parsing"); parsing != line.end()) {
    LS_ASSIGN_OR_RETURN(ParserOptions options, explicit_options(*parsing));
    order.stops = options.stops;
    order.start.thinking = options.start != Start::kContent && options.start != Start::kCalls;
    order.parser = std::make_unique<recipe::DsmlParser>(std::move(options));
  } else {
    order.stops = chat.generation.stop;
    order.start.thinking = chat.conversation.thinking;
    order.parser = parser_of(setup.format, chat.conversation, order.stops);
  }
  const auto input = line.find("input");
  if (input == line.end() || !input->is_array()) return invalid_argument("'input' is no array");
  order.input = &*input;
  order.start.begins_with_reasoning = order.parser->in_reasoning();
  order.start.include_usage = chat.generation.include_usage;
  return order;
}

// [log-probability, [[id, log-probability], …]] of one token.
StatusOr<recipe::AnswerToken> read_logprob(TokenId id, const Json& value) {
  const Status wrong = invalid_argument("'input[].logprobs' holds what is no log-probability");
  if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_array()) {
    return wrong;
  }
  recipe::AnswerToken token;
  token.token = id;
  token.logprob = value[0].get<float>();
  for (const Json& other : value[1]) {
    const bool pair = other.is_array() && other.size() == 2 && other[0].is_number_integer() &&
                      other[1].is_number();
    if (!pair) return wrong;
    token.top.push_back({other[0].get<TokenId>(), other[1].get<float>()});
  }
  return token;
}

// Parses one line's input and writes the reply as it goes.
class Decoding {
 public:
  Decoding(const RecipeSetup& setup, Order order, DecodedReply& reply)
      : setup_(setup),
        order_(std::move(order)),
        reply_(reply),
        parser_(*order_.parser),
        pieces_(setup.tokenizer->vocab()) {}

  Status run() {
    for (const Json& entry : *order_.input) {
      if (!entry.is_object()) return invalid_argument("'input' holds an entry that is no object");
      LS_RETURN_IF_ERROR(take(entry));
    }
    begin();
    parser_.finish(events_);
    flush();
    recipe::AnswerEnd end;
    end.reason = parser_.stop() ? "stop" : finish_;
    if (end.reason == "stop" && parser_.calls() > 0) end.reason = "tool_calls";
    if (parser_.stop()) {
      end.stop_string = order_.stops[static_cast<size_t>(*parser_.stop())];
    }
    usage_.reasoning_tokens = static_cast<int64_t>(
        setup_.tokenizer->encode(reasoning_, recipe::Tokenizer::Mode::kSpecial).size());
    end.usage = usage_;
    reply_.finish(end);
    return ok_status();
  }

  bool has_reasoned() const { return !reasoning_.empty(); }

 private:
  Status take(const Json& entry) {
    if (const auto ready = entry.find("ready"); ready != entry.end()) return read_ready(*ready);
    begin();
    if (const auto end = entry.find("finish"); end != entry.end()) {
      if (!end->is_string()) return invalid_argument("'input[].finish' is no string");
      finish_ = end->get<std::string>();
      return ok_status();
    }
    if (const auto ids = entry.find("token_ids"); ids != entry.end()) {
      return take_tokens(*ids, entry.value("logprobs", Json()));
    }
    recipe::Warnings warnings;
    recipe::Fields fields(entry, "input[]", warnings);
    std::string text;
    int64_t count = 0;
    LS_RETURN_IF_ERROR(fields.read_string("text", text));
    LS_RETURN_IF_ERROR(fields.read_integer("token_count", 0, INT32_MAX, count));
    if (!parser_.stop()) usage_.completion_tokens += count;
    parser_.push(text, AnswerParser::Origin::kUnknown, events_);
    flush();
    return ok_status();
  }

  // {prompt_tokens, cached, fp}. What comes after the first words is too late to be told.
  Status read_ready(const Json& ready) {
    recipe::Warnings warnings;
    if (!ready.is_object()) return invalid_argument("'input[].ready' is no object");
    recipe::Fields fields(ready, "input[].ready", warnings);
    recipe::TokenUsage usage;
    std::string fingerprint;
    LS_RETURN_IF_ERROR(fields.read_integer("prompt_tokens", 0, INT32_MAX, usage.prompt_tokens));
    LS_RETURN_IF_ERROR(fields.read_integer("cached", 0, INT32_MAX, usage.cached_tokens));
    LS_RETURN_IF_ERROR(fields.read_string("fp", fingerprint));
    if (begun_) return ok_status();
    usage_ = usage;
    order_.start.fingerprint = fingerprint;
    return ok_status();
  }

  Status take_tokens(const Json& ids, const Json& logprobs) {
    const Vocab& vocab = *setup_.tokenizer->vocab();
    LS_ASSIGN_OR_RETURN(const auto tokens, token_ids(ids, vocab.size()));
    const bool with_logprobs = !logprobs.is_null();
    if (with_logprobs && (!logprobs.is_array() || logprobs.size() != tokens.size())) {
      return invalid_argument("'input[].logprobs' must hold one entry for each of the {} tokens",
                              tokens.size());
    }
    if (!parser_.stop()) usage_.completion_tokens += static_cast<int64_t>(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (with_logprobs) {
        LS_ASSIGN_OR_RETURN(const auto token, read_logprob(tokens[i], logprobs[i]));
        logprobs_.push_back(recipe::logprob_json(token, vocab));
      }
      const bool reasoned = parser_.in_reasoning();
      pieces_.push(tokens[i], parser_, events_);
      // Tokens of a marker are no part of the text.
      if (events_.empty() && reasoned != parser_.in_reasoning()) logprobs_.clear();
      if (with_logprobs) flush();
    }
    flush();
    return ok_status();
  }

  void begin() {
    if (std::exchange(begun_, true)) return;
    reply_.begin(order_.start, usage_);
  }

  // Hands on what the parser gave, the log-probabilities with the first text.
  void flush() {
    for (const AnswerEvent& event : events_) {
      if (event.kind == AnswerEvent::Kind::kReasoning) reasoning_ += event.text;
      reply_.next(event, std::exchange(logprobs_, Json::array()));
    }
    events_.clear();
  }

  const RecipeSetup& setup_;
  Order order_;
  DecodedReply& reply_;
  AnswerParser& parser_;
  recipe::TokenPieces pieces_;
  std::vector<AnswerEvent> events_;
  recipe::TokenUsage usage_;
  std::string finish_ = "stop";
  std::string reasoning_;
  Json logprobs_ = Json::array();  // of tokens whose text is held back
  bool begun_ = false;
};

StatusOr<Json> decoded(const RecipeSetup& setup, const std::string& dialect,
                       const std::string& text) {
  LS_ASSIGN_OR_RETURN(const Json line, parse_json(text));
  LS_ASSIGN_OR_RETURN(Order order, read_order(setup, line));
  std::random_device chance;
  const auto random = [&] { return (uint64_t{chance()} << 32) | chance(); };
  const bool thinking = order.start.thinking;
  const Decoding* decoding = nullptr;
  const auto reply = make_decoded_reply(dialect, *order.request, [&](int32_t index) {
    return recipe::make_call_id(index, thinking && !decoding->has_reasoned(), random(), random());
  });
  Decoding one(setup, std::move(order), *reply);
  decoding = &one;
  LS_RETURN_IF_ERROR(one.run());
  return reply->take();
}

}  // namespace

int run_decode(const Config& config) {
  const auto setup = open_recipe(config);
  if (!setup.ok()) return fail_load(setup.status());
  bool all_good = true;
  const Status status = for_each_line(std::cin, [&](const std::string& line) -> Status {
    const auto reply = decoded(*setup, config.recipe.dialect, line);
    all_good = all_good && reply.ok();
    if (!reply.ok()) {
      print_json(error_json(reply.status()));
    } else {
      print_json(config.common.json ? *reply : (*reply)["final"]);
    }
    return ok_status();
  });
  if (!status.ok()) return fail(kWrongUse, status);
  return config.common.json || all_good ? kOk : kFailed;
}

}  // namespace lineshaft::app
