#include "lineshaft/word_wrap.h"

#include <utility>

#include "base/utf8.h"

namespace lineshaft::app {
namespace {

constexpr std::string_view kFence = "```";

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// First bytes of U+3000 and beyond: scripts without spaces, emoji. Roughly, as terminals do.
bool begins_wide(char c) { return static_cast<unsigned char>(c) >= 0xe3; }

}  // namespace

std::string WordWrap::add(std::string_view text) {
  if (width_ == 0) return std::string(text);
  std::string out;
  for (const char c : text) put(c, &out);
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  put_word(&out);
  return out + std::exchange(spaces_, {});
}

void WordWrap::put(char c, std::string* out) {
  if (c == '\n') return end_line(out);
  if (head_.size() < kFence.size()) head_ += c;
  const bool as_it_is = in_code_ || head_[0] == ' ' || head_[0] == '\t' || head_[0] == '|';
  if (as_it_is) {
    *out += c;
  } else if (begins_wide(c) || (in_wide_ && continues(c))) {
    put_wide(c, out);
  } else {
    in_wide_ = false;
    if (c != ' ') word_ += c;
    // A word as long as the line would otherwise be shown only when it ends.
    if (c == ' ' || (word_.size() >= width_ && !continues(c))) put_word(out);
    if (c == ' ') spaces_ += c;
  }
}

void WordWrap::put_wide(char c, std::string* out) {
  if (begins_wide(c)) {
    put_word(out);
    break_before(2, out);
    in_wide_ = true;
  }
  *out += c;
}

void WordWrap::put_word(std::string* out) {
  if (word_.empty()) return;
  break_before(count_code_points(word_), out);
  *out += word_;
  word_.clear();
}

// Shows the spaces, or a line's end in their place, so that `columns` more fit.
void WordWrap::break_before(size_t columns, std::string* out) {
  if (column_ > 0 && column_ + spaces_.size() + columns > width_) {
    *out += '\n';
    column_ = 0;
  } else {
    *out += spaces_;
    column_ += spaces_.size();
  }
  spaces_.clear();
  column_ += columns;
}

void WordWrap::end_line(std::string* out) {
  put_word(out);
  *out += spaces_ + '\n';
  spaces_.clear();
  if (head_ == kFence) in_code_ = !in_code_;
  head_.clear();
  column_ = 0;
  in_wide_ = false;
}

}  // namespace lineshaft::app
