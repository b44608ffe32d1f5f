#include "recipe/detokenizer.h"

#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kReplacement = "\ufffd";

}  // namespace

std::string_view Detokenizer::push(TokenId token) {
  ready_.clear();
  if (token < 0 || token >= vocab_->size()) return ready_;
  if (control_ == ControlTokens::kHide && vocab_->kinds[token] == TokenKind::kControl) {
    return ready_;
  }
  held_ += vocab_->bytes[token];
  const char* p = held_.data();
  const char* end = p + held_.size();
  while (p < end) {
    bool complete = false;
    const uint32_t length = utf8_subpart(p, end, complete);
    if (complete) {
      ready_.append(p, length);
    } else if (p + length == end && utf8_length(static_cast<uint8_t>(*p)) != 0) {
      break;  // the next token may go on with it
    } else {
      ready_ += kReplacement;
    }
    p += length;
  }
  held_.erase(0, static_cast<size_t>(p - held_.data()));
  return ready_;
}

std::string_view Detokenizer::finish() {
  ready_ = held_.empty() ? std::string_view() : kReplacement;
  held_.clear();
  return ready_;
}

}  // namespace lineshaft::recipe
