#include "recipe/encoding/chatml.h"

#include <array>
#include <utility>

#include "recipe/encoding/chat_template.h"

namespace lineshaft::recipe {
namespace {

// Templates that ChatMl stands for, to the byte: another text means another prompt.
struct KnownTemplate {
  std::string_view text;
  std::string_view default_system;
};
constexpr std::array<KnownTemplate, 2> kKnownTemplates = {{
    // SmolLM2-*-Instruct.
    {"{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
     "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
     "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}",
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    // Plain ChatML, as many files carry it.
    {"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
     "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|im_start|>assistant\n' }}{% endif %}",
     ""},
}};

// Files write line breaks inside the template's strings as "\n" in two characters or as one.
std::string with_real_newlines(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n') {
      out.push_back('\n');
      ++i;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kSystem:
    case Role::kDeveloper:
    case Role::kNotice: return "system";
    case Role::kUser:
    case Role::kReminder: return "user";
    case Role::kAssistant: return "assistant";
    case Role::kTool: return "tool";
  }
  return "user";
}

TokenId control_token(const Tokenizer& tokenizer, std::string_view name) {
  const TokenId id = tokenizer.added_token(name);
  if (id < 0) return -1;
  return tokenizer.vocab()->kinds[static_cast<size_t>(id)] == TokenKind::kControl ? id : -1;
}

}  // namespace

ChatMl::ChatMl(std::shared_ptr<const Tokenizer> tokenizer, TokenId im_start, TokenId im_end,
               std::string default_system)
    : ChatEncoder(std::move(tokenizer)),
      im_start_(tokenizer_->token_bytes(im_start)),
      im_end_(tokenizer_->token_bytes(im_end)),
      default_system_(std::move(default_system)) {}

void ChatMl::append_turn(PieceList& out, std::string_view role, std::string_view content) const {
  out.control(im_start_);
  out.plain(role);
  out.plain("\n");
  out.plain(content);
  out.control(im_end_);
  out.plain("\n");
}

StatusOr<std::vector<Piece>> ChatMl::pieces(const Conversation& conversation,
                                            bool open_answer) const {
  PieceList out;
  const auto& turns = conversation.turns;
  if (!turns.empty() && turns.front().role != Role::kSystem && !default_system_.empty()) {
    append_turn(out, "system", default_system_);
  }
  for (const Turn& turn : turns) append_turn(out, role_name(turn.role), turn.content);
  if (open_answer) {
    out.control(im_start_);
    out.plain("assistant\n");
  }
  return std::move(out).take();
}

StatusOr<std::shared_ptr<const ChatEncoder>> make_chat_encoder(
    std::shared_ptr<const Tokenizer> tokenizer, std::string_view chat_template,
    std::string_view model_name, std::function<int64_t()> unix_seconds) {
  const TokenId im_start = control_token(*tokenizer, "<|im_start|>");
  const TokenId im_end = control_token(*tokenizer, "<|im_end|>");
  const std::string text = with_real_newlines(chat_template);
  for (const KnownTemplate& known : kKnownTemplates) {
    if (text == known.text && im_start >= 0 && im_end >= 0) {
      return std::make_shared<const ChatMl>(std::move(tokenizer), im_start, im_end,
                                            std::string(known.default_system));
    }
  }
  if (chat_template.empty()) {
    return unimplemented("{} has no chat template: it completes text; use /v1/completions",
                         model_name);
  }
  auto encoder =
      ChatTemplate::make(std::move(tokenizer), chat_template, std::move(unix_seconds));
  if (encoder.ok()) return std::shared_ptr<const ChatEncoder>(*std::move(encoder));
  return make_status(encoder.status().code(),
                     fmt::format("the chat template of {} can't be used ({}); use /v1/completions",
                                 model_name, message_of(encoder.status())));
}

}  // namespace lineshaft::recipe
