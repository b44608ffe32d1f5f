#include "decoding/constraint/regex.h"

#include <unicode/uset.h>
#include <unicode/utf16.h>

#include <limits>
#include <optional>
#include <string>

#include "base/utf8.h"

namespace lineshaft::decoding {
namespace {

constexpr int kUnbounded = std::numeric_limits<int>::max();

struct Ast {
  enum class Kind { kEmpty, kClass, kConcat, kAlternation, kRepeat, kBegin, kEnd, kLookahead };
  Kind kind = Kind::kEmpty;
  CodePointRanges ranges;      // kClass
  std::vector<Ast> children;
  int low = 0;                 // kRepeat
  int high = 0;
  bool negative = false;       // kLookahead
};

CodePointRanges digits() { return {{'0', '9'}}; }
CodePointRanges word() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePointRanges space() {
  return {{0x9, 0xd},       {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
          {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
}
CodePointRanges line_ends() { return {{0xa, 0xa}, {0xd, 0xd}, {0x2028, 0x2029}}; }

std::optional<CodePointRanges> property(std::string_view name) {
  std::u16string pattern = u"\\p{";
  for (const char c : name) pattern += static_cast<char16_t>(static_cast<unsigned char>(c));
  pattern += u'}';
  UErrorCode error = U_ZERO_ERROR;
  USet* set = uset_openPattern(pattern.data(), static_cast<int32_t>(pattern.size()), &error);
  if (U_FAILURE(error) || set == nullptr) return std::nullopt;
  CodePointRanges ranges;
  const int32_t count = uset_getItemCount(set);
  for (int32_t i = 0; i < count; ++i) {
    UChar32 low = 0;
    UChar32 high = 0;
    error = U_ZERO_ERROR;
    if (uset_getItem(set, i, &low, &high, nullptr, 0, &error) != 0) continue;
    ranges.emplace_back(static_cast<uint32_t>(low), static_cast<uint32_t>(high));
  }
  uset_close(set);
  return normalize(std::move(ranges));
}

class Parser {
 public:
  Parser(std::string_view text, const RegexLimits& limits, size_t at = 0)
      : text_(text), limits_(limits), at_(at) {}

  StatusOr<Ast> parse() {
    LS_ASSIGN_OR_RETURN(Ast ast, alternation(0));
    if (at_ < text_.size()) return fail("unbalanced ')'");
    return ast;
  }

  StatusOr<CodePointRanges> char_class() {
    ++at_;  // [
    const bool negative = eat('^');
    CodePointRanges ranges;
    while (true) {
      if (at_ >= text_.size()) return fail("'[' is not closed");
      if (eat(']')) break;
      LS_ASSIGN_OR_RETURN(const CodePointRanges low, class_atom());
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        const size_t dash = at_++;
        LS_ASSIGN_OR_RETURN(const CodePointRanges high, class_atom());
        const bool single = low.size() == 1 && low[0].first == low[0].second && high.size() == 1 &&
                            high[0].first == high[0].second;
        if (single && low[0].first > high[0].first) {
          at_ = dash;
          return fail("range out of order");
        }
        if (single) {
          ranges.emplace_back(low[0].first, high[0].first);
          continue;
        }
        ranges.insert(ranges.end(), high.begin(), high.end());
        ranges.emplace_back('-', '-');
      }
      ranges.insert(ranges.end(), low.begin(), low.end());
    }
    ranges = normalize(std::move(ranges));
    return negative ? complement(ranges) : ranges;
  }

  size_t at() const { return at_; }

 private:
  Status fail(std::string_view what) const {
    return invalid_argument("{} at byte {} of the pattern", what, at_);
  }
  Status refuse(std::string_view what) const {
    return unimplemented("{} (byte {} of the pattern) can't be enforced", what, at_);
  }
  bool eat(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool eat(std::string_view s) {
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }

  StatusOr<Ast> alternation(int depth) {
    if (depth > limits_.depth_max) {
      return resource_exhausted("groups nested deeper than {}", limits_.depth_max);
    }
    Ast ast{.kind = Ast::Kind::kAlternation, .ranges = {}, .children = {}};
    do {
      LS_ASSIGN_OR_RETURN(Ast branch, sequence(depth));
      ast.children.push_back(std::move(branch));
    } while (eat('|'));
    if (ast.children.size() == 1) return std::move(ast.children[0]);
    return ast;
  }

  StatusOr<Ast> sequence(int depth) {
    Ast ast{.kind = Ast::Kind::kConcat, .ranges = {}, .children = {}};
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      LS_ASSIGN_OR_RETURN(Ast item, atom(depth));
      LS_ASSIGN_OR_RETURN(item, quantified(std::move(item)));
      ast.children.push_back(std::move(item));
    }
    return ast;
  }

  StatusOr<Ast> quantified(Ast item) {
    while (at_ < text_.size()) {
      int low = 0;
      int high = kUnbounded;
      if (eat('*')) {
      } else if (eat('+')) {
        low = 1;
      } else if (eat('?')) {
        high = 1;
      } else if (text_[at_] == '{') {
        LS_ASSIGN_OR_RETURN(const bool counted, braces(&low, &high));
        if (!counted) return item;
      } else {
        return item;
      }
      if (item.kind == Ast::Kind::kBegin || item.kind == Ast::Kind::kEnd ||
          item.kind == Ast::Kind::kLookahead) {
        return fail("nothing to repeat");
      }
      eat('?');  // lazy or greedy: the language is the same
      Ast repeat{.kind = Ast::Kind::kRepeat, .ranges = {}, .children = {}, .low = low,
                 .high = high};
      repeat.children.push_back(std::move(item));
      item = std::move(repeat);
      if (at_ < text_.size() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?')) {
        return fail("nothing to repeat");
      }
    }
    return item;
  }

  // {n}, {n,} or {n,m}; false when the brace is none of these and so stands for itself.
  StatusOr<bool> braces(int* low, int* high) {
    const size_t from = at_++;
    const auto number = [&](int* out) {
      const size_t start = at_;
      int64_t value = 0;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
        value = std::min<int64_t>(value * 10 + (text_[at_++] - '0'), int64_t{1} << 30);
      }
      *out = static_cast<int>(value);
      return at_ > start;
    };
    bool good = number(low);
    *high = *low;
    if (good && eat(',') && !number(high)) *high = kUnbounded;
    good = good && eat('}');
    if (!good) {
      at_ = from;
      return false;
    }
    if (*high < *low) return fail("numbers out of order in {}");
    if (*low > limits_.repeat_max || (*high != kUnbounded && *high > limits_.repeat_max)) {
      return resource_exhausted("more than {} repeats at byte {} of the pattern",
                                limits_.repeat_max, from);
    }
    return true;
  }

  StatusOr<Ast> group(int depth) {
    Ast look{.kind = Ast::Kind::kLookahead, .ranges = {}, .children = {}};
    bool is_look = false;
    if (eat("?:")) {
    } else if (eat("?=")) {
      is_look = true;
    } else if (eat("?!")) {
      is_look = look.negative = true;
    } else if (eat("?<=") || eat("?<!")) {
      return refuse("look-behind");
    } else if (eat("?<") || eat("?P<")) {
      while (at_ < text_.size() && text_[at_] != '>') ++at_;
      if (!eat('>')) return fail("group name is not closed");
    } else if (at_ < text_.size() && text_[at_] == '?') {
      return refuse("a group of this kind");
    }
    LS_ASSIGN_OR_RETURN(Ast inside, alternation(depth + 1));
    if (!eat(')')) return fail("'(' is not closed");
    if (!is_look) return inside;
    look.children.push_back(std::move(inside));
    return look;
  }

  StatusOr<Ast> atom(int depth) {
    Ast ast{.kind = Ast::Kind::kClass, .ranges = {}, .children = {}};
    switch (text_[at_]) {
      case '^':
        ++at_;
        ast.kind = Ast::Kind::kBegin;
        return ast;
      case '$':
        ++at_;
        ast.kind = Ast::Kind::kEnd;
        return ast;
      case '(':
        ++at_;
        return group(depth);
      case '.':
        ++at_;
        ast.ranges = complement(line_ends());
        return ast;
      case '[': {
        LS_ASSIGN_OR_RETURN(ast.ranges, char_class());
        return ast;
      }
      case '*':
      case '+':
      case '?':
        return fail("nothing to repeat");
      case '\\': {
        LS_ASSIGN_OR_RETURN(ast.ranges, escape(false));
        return ast;
      }
      default: {
        LS_ASSIGN_OR_RETURN(const uint32_t c, literal());
        ast.ranges = {{c, c}};
        return ast;
      }
    }
  }

  StatusOr<CodePointRanges> class_atom() {
    if (at_ >= text_.size()) return fail("'[' is not closed");
    if (text_[at_] == '\\') return escape(true);
    LS_ASSIGN_OR_RETURN(const uint32_t c, literal());
    return CodePointRanges{{c, c}};
  }

  // One code point that stands for itself. The text is well-formed UTF-8 (checked at the door).
  StatusOr<uint32_t> literal() {
    const auto lead = static_cast<uint8_t>(text_[at_]);
    const int length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t c = length == 1 ? lead : lead & (0x7fu >> length);
    for (int i = 1; i < length; ++i) c = (c << 6) | (static_cast<uint8_t>(text_[at_ + i]) & 0x3f);
    at_ += static_cast<size_t>(length);
    return c;
  }

  StatusOr<uint32_t> hex(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return fail("bad hexadecimal escape");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  StatusOr<uint32_t> unicode_escape() {
    if (eat('{')) {
      uint32_t value = 0;
      const size_t start = at_;
      while (at_ < text_.size() && text_[at_] != '}') {
        LS_ASSIGN_OR_RETURN(const uint32_t digit, hex(1));
        value = value * 16 + digit;
        if (value > kCodePointMax) return fail("code point too large");
      }
      if (at_ == start || !eat('}')) return fail("bad escape");
      return value;
    }
    LS_ASSIGN_OR_RETURN(const uint32_t high, hex(4));
    if (high < 0xd800 || high > 0xdbff || text_.substr(at_, 2) != "\\u") return high;
    at_ += 2;
    LS_ASSIGN_OR_RETURN(const uint32_t low, hex(4));
    if (low < 0xdc00 || low > 0xdfff) return fail("surrogate without its pair");
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  StatusOr<CodePointRanges> property_escape(bool negative) {
    if (!eat('{')) return fail("bad property escape");
    const size_t close = text_.find('}', at_);
    if (close == std::string_view::npos) return fail("'{' is not closed");
    const auto set = property(text_.substr(at_, close - at_));
    if (!set) return fail("unknown property");
    at_ = close + 1;
    return negative ? complement(*set) : *set;
  }

  StatusOr<CodePointRanges> escape(bool in_class) {
    ++at_;
    if (at_ >= text_.size()) return fail("lone backslash");
    const char c = text_[at_];
    const auto one = [](uint32_t x) { return CodePointRanges{{x, x}}; };
    if (static_cast<uint8_t>(c) >= 0x80) {
      LS_ASSIGN_OR_RETURN(const uint32_t x, literal());
      return one(x);
    }
    ++at_;
    switch (c) {
      case 'd': return digits();
      case 'D': return complement(digits());
      case 'w': return word();
      case 'W': return complement(word());
      case 's': return space();
      case 'S': return complement(space());
      case 't': return one('\t');
      case 'n': return one('\n');
      case 'v': return one('\v');
      case 'f': return one('\f');
      case 'r': return one('\r');
      case 'p': return property_escape(false);
      case 'P': return property_escape(true);
      case 'x': {
        LS_ASSIGN_OR_RETURN(const uint32_t x, hex(2));
        return one(x);
      }
      case 'u': {
        LS_ASSIGN_OR_RETURN(const uint32_t x, unicode_escape());
        return one(x);
      }
      case 'c': {
        const char letter = at_ < text_.size() ? text_[at_] : '\0';
        const bool good = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (!good) return fail("bad control escape");
        ++at_;
        return one(static_cast<uint32_t>(letter) & 0x1f);
      }
      case 'b':
        if (in_class) return one('\b');
        return refuse("a word boundary");
      case 'B': return refuse("a word boundary");
      case '0':
        if (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
          return fail("octal escape");
        }
        return one(0);
      default: break;
    }
    if (c >= '1' && c <= '9') return refuse("a back-reference");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      at_ -= 1;
      return c == 'k' ? refuse("a back-reference") : fail("unknown escape");
    }
    return one(static_cast<uint32_t>(static_cast<uint8_t>(c)));
  }

  std::string_view text_;
  const RegexLimits& limits_;
  size_t at_;
};

bool has_lookahead(const Ast& ast) {
  if (ast.kind == Ast::Kind::kLookahead) return true;
  for (const Ast& child : ast.children) {
    if (has_lookahead(child)) return true;
  }
  return false;
}

int32_t build(const Ast& ast, int32_t next, NfaBuilder& out) {
  using Op = Nfa::Op;
  if (out.full()) return 0;
  switch (ast.kind) {
    case Ast::Kind::kEmpty:
    case Ast::Kind::kLookahead:
      return next;
    case Ast::Kind::kClass:
      return out.code_points(ast.ranges, next);
    case Ast::Kind::kBegin:
      return out.add({Op::kBegin, 0, 0, next, -1});
    case Ast::Kind::kEnd:
      return out.add({Op::kEnd, 0, 0, next, -1});
    case Ast::Kind::kConcat:
      for (auto child = ast.children.rbegin(); child != ast.children.rend(); ++child) {
        next = build(*child, next, out);
      }
      return next;
    case Ast::Kind::kAlternation: {
      int32_t entry = build(ast.children.back(), next, out);
      for (size_t i = ast.children.size() - 1; i-- > 0;) {
        entry = out.add({Op::kSplit, 0, 0, build(ast.children[i], next, out), entry});
      }
      return entry;
    }
    case Ast::Kind::kRepeat: {
      const Ast& body = ast.children[0];
      int32_t entry = next;
      if (ast.high == kUnbounded) {
        entry = out.add({Op::kSplit, 0, 0, -1, next});
        const int32_t loop = build(body, entry, out);
        if (out.full()) return 0;
        out.node(entry).next = loop;
      } else {
        for (int i = ast.low; i < ast.high && !out.full(); ++i) {
          entry = out.add({Op::kSplit, 0, 0, build(body, entry, out), next});
        }
      }
      for (int i = 0; i < ast.low && !out.full(); ++i) entry = build(body, entry, out);
      return entry;
    }
  }
  return next;
}

StatusOr<std::shared_ptr<const Nfa>> to_nfa(const Ast& ast, const RegexLimits& limits) {
  if (has_lookahead(ast)) {
    return unimplemented("a look-ahead that is not at the front of the pattern can't be enforced");
  }
  NfaBuilder builder(limits.nodes_max);
  const int32_t match = builder.add({Nfa::Op::kMatch, 0, 0, -1, -1});
  const int32_t start = build(ast, match, builder);
  if (builder.full()) {
    return resource_exhausted("the pattern needs more than {} states", limits.nodes_max);
  }
  return std::make_shared<const Nfa>(builder.finish(start));
}

Status check_text(std::string_view text) {
  if (valid_utf8_prefix(text) != text.size()) return invalid_argument("pattern is not UTF-8");
  return ok_status();
}

}  // namespace

StatusOr<Regex> parse_regex(std::string_view text, const RegexLimits& limits) {
  LS_RETURN_IF_ERROR(check_text(text));
  LS_ASSIGN_OR_RETURN(Ast ast, Parser(text, limits).parse());
  Regex regex;
  // ^(?=x)(?!y)z: what looks ahead from the first byte is a condition on the whole text.
  if (ast.kind == Ast::Kind::kConcat && !ast.children.empty() &&
      ast.children[0].kind == Ast::Kind::kBegin) {
    auto& items = ast.children;
    while (items.size() > 1 && items[1].kind == Ast::Kind::kLookahead) {
      Ast condition{.kind = Ast::Kind::kConcat, .ranges = {}, .children = {}};
      condition.children.push_back(items[0]);
      condition.children.push_back(std::move(items[1].children[0]));
      LS_ASSIGN_OR_RETURN(auto nfa, to_nfa(condition, limits));
      (items[1].negative ? regex.never : regex.also).push_back(std::move(nfa));
      items.erase(items.begin() + 1);
    }
  }
  LS_ASSIGN_OR_RETURN(regex.body, to_nfa(ast, limits));
  return regex;
}

StatusOr<std::shared_ptr<const Nfa>> parse_plain_regex(std::string_view text,
                                                       const RegexLimits& limits) {
  LS_RETURN_IF_ERROR(check_text(text));
  LS_ASSIGN_OR_RETURN(const Ast ast, Parser(text, limits).parse());
  return to_nfa(ast, limits);
}

StatusOr<CodePointRanges> parse_char_class(std::string_view text, size_t* at) {
  const RegexLimits limits;
  Parser parser(text, limits, *at);
  LS_ASSIGN_OR_RETURN(CodePointRanges ranges, parser.char_class());
  *at = parser.at();
  return ranges;
}

}  // namespace lineshaft::decoding
