#include "recipe/encoding/chat_template.h"

#include <utility>

namespace lineshaft::recipe {
namespace {

using jinja::make_dict;
using jinja::make_list;
using jinja::make_text;
using jinja::TextPtr;
using jinja::Value;

using Pairs = std::vector<std::pair<TextPtr, Value>>;

void put(Pairs& pairs, std::string_view key, Value value) {
  pairs.emplace_back(
      std::make_shared<const OriginText>(std::string(key), Origin::kScaffolding),
      std::move(value));
}

Value user_text(const std::string& text) { return make_text(text, Origin::kUser); }

// Roles are words of ours, so they count as scaffolding: templates spell "<|user|>" with them.
std::string_view role_name(Role role) {
  switch (role) {
    case Role::kUser: return "user";
    case Role::kAssistant: return "assistant";
    case Role::kTool: return "tool";
    case Role::kSystem:
    case Role::kDeveloper:
    case Role::kNotice:
    case Role::kReminder: break;
  }
  return "system";
}

// Templates print arguments with tojson, so they get the object; what is no JSON stays a text.
Value arguments_value(const std::string& arguments) {
  const auto json = parse_json(arguments);
  return json.ok() ? jinja::value_from_json(*json, Origin::kUser) : user_text(arguments);
}

Value call_value(const ToolCall& call) {
  Pairs function;
  put(function, "name", user_text(call.name));
  put(function, "arguments", arguments_value(call.arguments));
  Pairs out;
  put(out, "id", user_text(call.id));
  put(out, "type", make_text("function", Origin::kScaffolding));
  put(out, "function", make_dict(std::move(function)));
  return make_dict(std::move(out));
}

Value turn_value(const Turn& turn) {
  Pairs out;
  put(out, "role", make_text(std::string(role_name(turn.role)), Origin::kScaffolding));
  put(out, "content", user_text(turn.content));
  if (!turn.reasoning.empty()) put(out, "reasoning_content", user_text(turn.reasoning));
  if (!turn.calls.empty()) {
    std::vector<Value> calls;
    for (const ToolCall& call : turn.calls) calls.push_back(call_value(call));
    put(out, "tool_calls", make_list(std::move(calls)));
  }
  if (!turn.call_id.empty()) put(out, "tool_call_id", user_text(turn.call_id));
  return make_dict(std::move(out));
}

Value tool_value(const Tool& tool) {
  Pairs function;
  put(function, "name", user_text(tool.name));
  put(function, "description", user_text(tool.description));
  put(function, "parameters", jinja::value_from_json(tool.parameters, Origin::kUser));
  Pairs out;
  put(out, "type", make_text("function", Origin::kScaffolding));
  put(out, "function", make_dict(std::move(function)));
  return make_dict(std::move(out));
}

void put_token(jinja::Variables& variables, const char* name, const Vocab& vocab, TokenId id) {
  if (id < 0) return;
  variables.emplace_back(name, make_text(vocab.bytes[static_cast<size_t>(id)],
                                         Origin::kScaffolding));
}

// The variables that Hugging Face's apply_chat_template gives.
jinja::Variables variables_of(const Conversation& conversation, bool open_answer,
                              bool asks_thinking, const Vocab& vocab) {
  jinja::Variables out;
  std::vector<Value> messages;
  for (const Turn& turn : conversation.turns) messages.push_back(turn_value(turn));
  out.emplace_back("messages", make_list(std::move(messages)));
  if (offers_tools(conversation)) {
    std::vector<Value> tools;
    for (const Tool& tool : conversation.tools) tools.push_back(tool_value(tool));
    out.emplace_back("tools", make_list(std::move(tools)));
  }
  out.emplace_back("add_generation_prompt", jinja::make_bool(open_answer));
  if (conversation.thinking || asks_thinking) {
    out.emplace_back("enable_thinking", jinja::make_bool(conversation.thinking));
  }
  put_token(out, "bos_token", vocab, vocab.bos);
  put_token(out, "eos_token", vocab, vocab.eos);
  return out;
}

}  // namespace

std::vector<Piece> template_pieces(const OriginText& text, const Tokenizer& tokenizer) {
  PieceList out;
  text.each_run([&](std::string_view run, Origin origin) {
    size_t from = 0;
    while (origin == Origin::kScaffolding) {
      const auto match = tokenizer.find_control(run, from);
      if (!match) break;
      out.plain(run.substr(from, match->begin - from));
      out.control(tokenizer.token_bytes(match->id));
      from = match->end;
    }
    out.plain(run.substr(from));
  });
  return std::move(out).take();
}

ChatTemplate::ChatTemplate(std::shared_ptr<const Tokenizer> tokenizer,
                           std::shared_ptr<const jinja::Template> text, bool asks_thinking,
                           std::function<int64_t()> unix_seconds)
    : ChatEncoder(std::move(tokenizer)),
      template_(std::move(text)),
      asks_thinking_(asks_thinking),
      unix_seconds_(std::move(unix_seconds)) {}

StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::make(
    std::shared_ptr<const Tokenizer> tokenizer, std::string_view text,
    std::function<int64_t()> unix_seconds) {
  LS_ASSIGN_OR_RETURN(auto parsed, jinja::Template::parse(text));
  return std::shared_ptr<const ChatTemplate>(
      new ChatTemplate(std::move(tokenizer), std::move(parsed),
                       text.find("enable_thinking") != text.npos, std::move(unix_seconds)));
}

StatusOr<std::vector<Piece>> ChatTemplate::pieces(const Conversation& conversation,
                                                  bool open_answer) const {
  const auto text = template_->render(
      variables_of(conversation, open_answer, asks_thinking_, *tokenizer_->vocab()),
      unix_seconds_());
  if (!text.ok()) {
    return invalid_argument("the model's chat template refuses the messages: {}",
                            message_of(text.status()));
  }
  return template_pieces(*text, *tokenizer_);
}

}  // namespace lineshaft::recipe
