// Milliseconds that a prompt takes from the text of a request to its tokens, whole and with one
// more turn; microseconds a token from a model's tokens to the events of its answer. One thread.
//   recipe_bench ENCODING TOKENIZER.json REQUEST.json
// ENCODING is a native one by its name, or a file with a chat template. The request is one of Chat
// Completions; the answer that is parsed is what its assistant says.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "recipe/chat_format.h"
#include "recipe/dialect/openai_chat.h"
#include "recipe/parser/dsml_parser.h"
#include "recipe/parser/token_pieces.h"

namespace lineshaft::recipe {
namespace {

double best_ms(int rounds, const std::function<void()>& prepare,
               const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    prepare();
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    best = std::min(best, spent.count());
  }
  return best;
}

std::string read_file(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

StatusOr<ChatFormat> make_format(const char* encoding,
                                 const std::shared_ptr<const Tokenizer>& tokenizer) {
  const std::string chat_template = read_file(encoding);
  if (chat_template.empty()) return chat_format_by_name(encoding, tokenizer);
  return chat_format_of_template(tokenizer, chat_template, encoding, [] { return int64_t{0}; });
}

Status measure(const char* encoding, const char* tokenizer_path, const char* request_path) {
  LS_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer_from_json_file(tokenizer_path));
  const std::string body = read_file(request_path);
  DialectLimits limits;
  limits.vocab = tokenizer->vocab()->size();
  StatusOr<ChatFormat> format = make_format(encoding, tokenizer);
  if (!format.ok()) return format.status();
  limits.abilities = format->abilities;
  Conversation conversation;
  std::vector<TokenId> prompt;
  Status status = ok_status();
  const auto read = [&]() -> Status {
    LS_ASSIGN_OR_RETURN(const Json json, parse_json(body));
    LS_ASSIGN_OR_RETURN(ChatOrder order, parse_openai_chat(json, limits));
    conversation = std::move(order.conversation);
    return ok_status();
  };
  const auto encode = [&] {
    auto ids = format->encode(conversation);
    if (ids.ok()) {
      prompt = *std::move(ids);
    } else {
      status = ids.status();
    }
  };
  LS_RETURN_IF_ERROR(read());
  const double read_ms = best_ms(5, [] {}, [&] { status = read(); });
  const auto forget = [&] { format = make_format(encoding, tokenizer); };
  const double whole_ms = best_ms(5, forget, encode);
  int turn = 0;
  const double again_ms = best_ms(
      5,
      [&] {
        conversation.turns.push_back({Role::kAssistant, fmt::format("Answer {}.", ++turn)});
        conversation.turns.push_back({Role::kUser, fmt::format("And question {}?", turn)});
      },
      encode);
  LS_RETURN_IF_ERROR(status);

  std::string answer = "Thoughts.</think>";
  for (const Turn& one : conversation.turns) {
    if (one.role == Role::kAssistant) answer += one.content;
  }
  const auto tokens = tokenizer->encode(answer, Tokenizer::Mode::kSpecial);
  std::vector<AnswerEvent> events;
  const double parse_ms = best_ms(5, [] {}, [&] {
    DsmlParser parser({.start = ParserOptions::Start::kReasoning, .tools = true, .stops = {}});
    TokenPieces pieces(tokenizer->vocab());
    for (const TokenId token : tokens) {
      events.clear();
      pieces.push(token, parser, events);
    }
  });
  std::printf(
      "{\"prompt_tokens\": %zu, \"read_ms\": %.2f, \"encode_ms\": %.2f, "
      "\"one_more_turn_ms\": %.2f, "
      "\"answer_tokens\": %zu, \"parse_us_per_token\": %.3f}\n",
      prompt.size(), read_ms, whole_ms, again_ms, tokens.size(),
      parse_ms * 1000.0 / static_cast<double>(tokens.size()));
  return ok_status();
}

}  // namespace
}  // namespace lineshaft::recipe

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: recipe_bench ENCODING TOKENIZER.json REQUEST.json\n");
    return 2;
  }
  const auto status = lineshaft::recipe::measure(arguments[1], arguments[2], arguments[3]);
  const std::string error(lineshaft::message_of(status));
  if (!status.ok()) std::fprintf(stderr, "%s\n", error.c_str());
  return status.ok() ? 0 : 1;
}
