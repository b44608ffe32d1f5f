#include "recipe/template/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "recipe/template/char_kinds.h"

namespace lineshaft::recipe::jinja {
namespace {

constexpr std::array<std::string_view, 26> kOperators = {
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}
bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }
int digit_of(char c, int base) {
  const int value = is_digit(c)              ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
  return value < base ? value : -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  StatusOr<std::vector<Lexeme>> run() {
    while (at_ < source_.size()) LS_RETURN_IF_ERROR(lex_data());
    put(TokenType::kEnd, source_.size(), "");
    return std::move(out_);
  }

 private:
  Status fail(size_t at, std::string_view what) const {
    return invalid_argument("{}: {}", place_of(source_, static_cast<uint32_t>(at)), what);
  }

  void put(TokenType type, size_t at, std::string text) {
    out_.push_back({type, static_cast<uint32_t>(at), std::move(text)});
  }

  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  size_t find_tag(size_t from) const {
    while (true) {
      const size_t open = source_.find('{', from);
      if (open == std::string_view::npos || open + 1 >= source_.size()) return source_.size();
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') return open;
      from = open + 1;
    }
  }

  // The text before a tag, cut as the tag's sign and lstrip_blocks say.
  std::string_view cut_before(std::string_view text, char sign, bool strip_line) const {
    if (sign == '-') return text.substr(0, skip_back(text, is_space));
    if (sign == '+' || !strip_line) return text;
    const size_t line = text.rfind('\n') + 1;  // 0 when there is none
    if (line == 0 && !line_starting_) return text;
    return skip_front(text.substr(line), is_space) == text.size() - line ? text.substr(0, line)
                                                                         : text;
  }

  void put_data(size_t begin, std::string_view text) {
    if (!text.empty()) put(TokenType::kData, begin, std::string(text));
  }

  Status lex_data() {
    const size_t begin = at_;
    at_ = find_tag(begin);
    const std::string_view text = source_.substr(begin, at_ - begin);
    if (at_ == source_.size()) {
      put_data(begin, text);
      return ok_status();
    }
    const size_t tag = at_;
    const char kind = source_[tag + 1];
    at_ += 2;
    const char sign = peek() == '-' || peek() == '+' ? peek() : '\0';
    if (sign != '\0') ++at_;
    put_data(begin, cut_before(text, sign, kind != '{'));
    if (kind == '#') return lex_comment(tag);
    if (kind == '%' && is_raw()) return lex_raw(tag);
    put(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, tag, "");
    return lex_inside(tag, kind == '{' ? '}' : '%');
  }

  // Behind a tag's end: what its sign and trim_blocks take, and whether a line begins here.
  void end_tag(char sign, bool trim) {
    const size_t begin = at_;
    if (sign == '-') {
      at_ += skip_front(source_.substr(at_), is_space);
    } else if (trim && sign != '+' && peek() == '\n') {
      ++at_;
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  Status lex_comment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return fail(tag, "a comment without its end '#}'");
    const char before = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    end_tag(before, true);
    return ok_status();
  }

  // At "raw %}" with any white space; leaves at_ where it is.
  bool is_raw() const {
    const std::string_view rest = source_.substr(at_);
    const size_t name = skip_front(rest, is_space);
    if (rest.substr(name, 3) != "raw") return false;
    const size_t end = name + 3 + skip_front(rest.substr(name + 3), is_space);
    return rest.substr(end, 2) == "%}" || rest.substr(end, 3) == "-%}";
  }

  Status lex_raw(size_t tag) {
    size_t end = source_.find("%}", at_);
    const char sign = source_[end - 1];
    at_ = end + 2;
    end_tag(sign, false);
    const size_t begin = at_;
    for (size_t open = source_.find("{%", begin); open != std::string_view::npos;
         open = source_.find("{%", open + 1)) {
      at_ = open + 2;
      const char open_sign = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (open_sign != '\0') ++at_;
      at_ += skip_front(source_.substr(at_), is_space);
      if (source_.substr(at_, 6) != "endraw") continue;
      at_ += 6;
      at_ += skip_front(source_.substr(at_), is_space);
      const char close_sign = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (close_sign != '\0') ++at_;
      if (source_.substr(at_, 2) != "%}") continue;
      at_ += 2;
      put_data(begin, cut_before(source_.substr(begin, open - begin), open_sign, true));
      end_tag(close_sign, true);
      return ok_status();
    }
    return fail(tag, "'raw' without its 'endraw'");
  }

  // Up to and with "}}" or "%}" (`closer` is its first character).
  Status lex_inside(size_t tag, char closer) {
    std::string open;  // brackets
    while (at_ < source_.size()) {
      at_ += skip_front(source_.substr(at_), is_space);
      if (at_ >= source_.size()) break;
      if (open.empty()) {
        const bool signed_end = (peek() == '-' || (peek() == '+' && closer == '%'));
        const size_t skip = signed_end ? 1 : 0;
        if (peek(skip) == closer && peek(skip + 1) == '}') {
          const char sign = signed_end ? peek() : '\0';
          put(closer == '}' ? TokenType::kVariableEnd : TokenType::kBlockEnd, at_, "");
          at_ += skip + 2;
          end_tag(sign, closer == '%');
          return ok_status();
        }
      }
      LS_RETURN_IF_ERROR(lex_token(open));
    }
    return fail(tag, closer == '}' ? "'{{' without its '}}'" : "'{%' without its '%}'");
  }

  Status lex_token(std::string& open) {
    const char c = peek();
    if (is_name_start(c)) {
      const size_t begin = at_;
      while (is_name_char(peek())) ++at_;
      put(TokenType::kName, begin, std::string(source_.substr(begin, at_ - begin)));
      return ok_status();
    }
    if (is_digit(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string(c);
    for (const std::string_view op : kOperators) {
      if (source_.substr(at_, op.size()) != op) continue;
      LS_RETURN_IF_ERROR(balance(op[0], open));
      put(TokenType::kOperator, at_, std::string(op));
      at_ += op.size();
      return ok_status();
    }
    return fail(at_, fmt::format("unexpected character '{}'", c));
  }

  Status balance(char c, std::string& open) const {
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if (c != ')' && c != ']' && c != '}') return ok_status();
    const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open.empty() || open.back() != wanted) return fail(at_, fmt::format("unexpected '{}'", c));
    open.pop_back();
    return ok_status();
  }

  void skip_digits(std::string& digits) {
    while (is_digit(peek()) || (peek() == '_' && is_digit(peek(1)))) {
      if (peek() != '_') digits.push_back(peek());
      ++at_;
    }
  }

  Status lex_number() {
    const size_t begin = at_;
    const bool member = out_.back().type == TokenType::kOperator && out_.back().text == ".";
    std::string digits;
    skip_digits(digits);
    bool real = false;
    if (!member && peek() == '.' && is_digit(peek(1))) {
      real = true;
      digits.push_back('.');
      ++at_;
      skip_digits(digits);
    }
    const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!member && (peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      real = true;
      digits.push_back('e');
      if (sign == 1) digits.push_back(peek(1));
      at_ += 1 + sign;
      skip_digits(digits);
    }
    if (digits.size() > 64) return fail(begin, "a number of too many digits");
    put(real ? TokenType::kFloat : TokenType::kInteger, begin, std::move(digits));
    return ok_status();
  }

  Status lex_string(char quote) {
    const size_t begin = at_++;
    std::string text;
    while (at_ < source_.size() && peek() != quote) {
      if (peek() != '\\') {
        text.push_back(source_[at_++]);
        continue;
      }
      if (at_ + 1 >= source_.size()) break;
      ++at_;
      LS_RETURN_IF_ERROR(unescape(text));
    }
    if (at_ >= source_.size()) return fail(begin, "a string without its closing quote");
    ++at_;
    put(TokenType::kString, begin, std::move(text));
    return ok_status();
  }

  // At the character behind a backslash. Escapes as in Python's string literals.
  Status unescape(std::string& text) {
    static constexpr std::string_view kNames = "abfnrtv\\'\"";
    static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[at_];
    const size_t known = kNames.find(c);
    if (known != std::string_view::npos) {
      ++at_;
      text.push_back(kMeanings[known]);
      return ok_status();
    }
    if (c == '\n') {
      ++at_;
      return ok_status();
    }
    if (c == 'x') return unescape_number(text, 1, 2, 2, 16);
    if (c == 'u') return unescape_number(text, 1, 4, 4, 16);
    if (c == 'U') return unescape_number(text, 1, 8, 8, 16);
    if (digit_of(c, 8) >= 0) return unescape_number(text, 0, 1, 3, 8);
    text.push_back('\\');  // the character itself follows as any other
    return ok_status();
  }

  Status unescape_number(std::string& text, size_t skip, size_t least, size_t most, int base) {
    const size_t begin = at_ - 1;
    at_ += skip;
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < most && digit_of(peek(), base) >= 0; ++digits, ++at_) {
      value = value * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit_of(peek(), base));
    }
    if (digits < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
      return fail(begin, "an escape that stands for no character");
    }
    append_utf8(value, text);
    return ok_status();
  }

  const std::string_view source_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Lexeme> out_;
};

}  // namespace

std::string normalized_source(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out.push_back(text[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

StatusOr<std::vector<Lexeme>> lex(std::string_view source) { return Lexer(source).run(); }

std::string place_of(std::string_view source, uint32_t offset) {
  const std::string_view before = source.substr(0, offset);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line = before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", lines + 1,
                     count_code_points(before.substr(line)) + 1);
}

}  // namespace lineshaft::recipe::jinja
