// lineshaft decode: what a model said, in pieces of text or tokens, to the replies of a dialect.
// A line is {"request": …, "parsing": …, "input": [{"ready": …}, {"text": …} or {"token_ids": …},
// …, {"finish": …}]}; parsing may be left out, then the request says it.
#include <fmt/format.h>

#include <iostream>
#include <random>

#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/recipe_setup.h"
#include "recipe/dialect/call_id.h"
#include "recipe/dialect/chat_answer.h"
#include "recipe/dialect/fields.h"
#include "recipe/parser/token_pieces.h"

namespace lineshaft::app {
namespace {

using recipe::AnswerEvent;
using recipe::AnswerParser;
using recipe::ParserOptions;
using Start = ParserOptions::Start;

// One line, read: how to parse, and what.
struct Order {
  ParserOptions options;
  recipe::ChatAnswerInfo info;
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

StatusOr<Order> read_order(const RecipeSetup& setup, const Json& line) {
  if (!line.is_object()) return invalid_argument("expected an object");
  const auto request = line.find("request");
  if (request == line.end()) return invalid_argument("'request' is missing");
  LS_ASSIGN_OR_RETURN(const recipe::ChatOrder chat, setup.read(*request));
  Order order;
  if (const auto parsing = line.find("parsing"); parsing != line.end()) {
    LS_ASSIGN_OR_RETURN(order.options, explicit_options(*parsing));
  } else {
    order.options = recipe::parser_options(chat.conversation, chat.generation.stop);
  }
  const auto input = line.find("input");
  if (input == line.end() || !input->is_array()) return invalid_argument("'input' is no array");
  order.input = &*input;
  const Start start = order.options.start;
  order.info.id = "chatcmpl-1";
  order.info.model = "m";
  order.info.thinking = start != Start::kContent && start != Start::kCalls;
  order.info.begins_with_reasoning = start == Start::kReasoning || start == Start::kReasoningGoesOn;
  order.info.include_usage = chat.generation.include_usage;
  return order;
}

// The entry {"ready": {prompt_tokens, cached, fp}}.
Status read_ready(const Json& ready, Order& order, recipe::ChatUsage& usage) {
  recipe::Warnings warnings;
  if (!ready.is_object()) return invalid_argument("'input[].ready' is no object");
  recipe::Fields fields(ready, "input[].ready", warnings);
  LS_RETURN_IF_ERROR(fields.read_integer("prompt_tokens", 0, INT32_MAX, usage.prompt_tokens));
  LS_RETURN_IF_ERROR(fields.read_integer("cached", 0, INT32_MAX, usage.cached_tokens));
  return fields.read_string("fp", order.info.fingerprint);
}

// Feeds one entry with text or tokens; returns how many tokens it was.
StatusOr<int64_t> feed(const Json& entry, const RecipeSetup& setup, recipe::TokenPieces& pieces,
                       AnswerParser& parser, std::vector<AnswerEvent>& events) {
  if (entry.contains("logprobs")) {
    return invalid_argument("'input[].logprobs' is not supported: it comes with a later release");
  }
  if (const auto ids = entry.find("token_ids"); ids != entry.end()) {
    LS_ASSIGN_OR_RETURN(const auto tokens, token_ids(*ids, setup.tokenizer->vocab()->size()));
    for (const TokenId token : tokens) pieces.push(token, parser, events);
    return static_cast<int64_t>(tokens.size());
  }
  recipe::Warnings warnings;
  recipe::Fields fields(entry, "input[]", warnings);
  std::string text;
  int64_t count = 0;
  LS_RETURN_IF_ERROR(fields.read_string("text", text));
  LS_RETURN_IF_ERROR(fields.read_integer("token_count", 0, INT32_MAX, count));
  parser.push(text, AnswerParser::Origin::kUnknown, events);
  return count;
}

StatusOr<Json> decoded(const RecipeSetup& setup, const std::string& text) {
  LS_ASSIGN_OR_RETURN(const Json line, parse_json(text));
  LS_ASSIGN_OR_RETURN(Order order, read_order(setup, line));
  AnswerParser parser(order.options);
  recipe::TokenPieces pieces(setup.tokenizer->vocab());
  recipe::ChatUsage usage;
  std::string finish = "stop";
  std::vector<std::vector<AnswerEvent>> steps;
  for (const Json& entry : *order.input) {
    if (!entry.is_object()) return invalid_argument("'input' holds an entry that is no object");
    if (const auto ready = entry.find("ready"); ready != entry.end()) {
      LS_RETURN_IF_ERROR(read_ready(*ready, order, usage));
    } else if (const auto end = entry.find("finish"); end != entry.end()) {
      if (!end->is_string()) return invalid_argument("'input[].finish' is no string");
      finish = end->get<std::string>();
    } else {
      LS_ASSIGN_OR_RETURN(const int64_t tokens,
                          feed(entry, setup, pieces, parser, steps.emplace_back()));
      usage.completion_tokens += tokens;
    }
  }
  parser.finish(steps.emplace_back());
  if (parser.stop()) finish = "stop";
  if (finish == "stop" && parser.calls() > 0) finish = "tool_calls";

  std::random_device chance;
  const auto random = [&] { return (uint64_t{chance()} << 32) | chance(); };
  std::string reasoning;
  recipe::ChatAnswer answer(order.info, [&](int32_t index) {
    return recipe::make_call_id(index, order.info.thinking && reasoning.empty(), random(),
                                random());
  });
  Json events = Json::array({answer.first()});
  for (const auto& step : steps) {
    for (const AnswerEvent& event : step) {
      if (event.kind == AnswerEvent::Kind::kReasoning) reasoning += event.text;
      events.push_back(answer.next(event));
    }
  }
  usage.reasoning_tokens = static_cast<int64_t>(
      setup.tokenizer->encode(reasoning, recipe::Tokenizer::Mode::kSpecial).size());
  events.push_back(answer.last(finish, usage));
  Json reply = Json::object();
  reply["events"] = Json::array();
  for (Json& event : events) {
    Json entry = {{"event", nullptr}};
    entry["data"] = std::move(event);
    reply["events"].push_back(std::move(entry));
  }
  reply["final"] = answer.whole(finish, usage);
  return reply;
}

}  // namespace

int run_decode(const Config& config) {
  const auto setup = open_recipe(config);
  if (!setup.ok()) return fail_load(setup.status());
  if (config.recipe.dialect != "chat") {
    return fail(kWrongUse, unimplemented("replies in the dialect '{}' come with a later release; "
                                         "there is chat", config.recipe.dialect));
  }
  bool all_good = true;
  const Status status = for_each_line(std::cin, [&](const std::string& line) -> Status {
    const auto reply = decoded(*setup, line);
    all_good = all_good && reply.ok();
    if (!reply.ok()) {
      print_json(error_json(reply.status()));
    } else if (config.common.json) {
      print_json(*reply);
    } else {
      print_json((*reply)["final"]["choices"][0]["message"]);
    }
    return ok_status();
  });
  if (!status.ok()) return fail(kWrongUse, status);
  return config.common.json || all_good ? kOk : kFailed;
}

}  // namespace lineshaft::app
