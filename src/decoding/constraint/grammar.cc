#include "decoding/constraint/grammar.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/utf8.h"
#include "decoding/constraint/regex.h"

namespace lineshaft::decoding {
namespace {

struct Part {
  enum class Kind { kText, kClass, kRegex, kRule, kSequence, kEither, kRepeat };
  Kind kind = Kind::kSequence;
  std::string text;  // of kText; the rule's name
  CodePointRanges ranges;
  std::shared_ptr<const Nfa> regex;
  std::vector<Part> children;
  int low = 0;
  int high = 0;  // kRepeat: -1 is without end
};

Part make(Part::Kind kind) {
  Part part;
  part.kind = kind;
  return part;
}

Part repeat(Part inner, int low, int high) {
  Part part = make(Part::Kind::kRepeat);
  part.low = low;
  part.high = high;
  part.children.push_back(std::move(inner));
  return part;
}

struct Rules {
  std::vector<std::string> names;
  std::map<std::string, Part> bodies;
  std::string root;
  std::string ignore;  // name of a rule for what may stand between tokens; "": none
};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// Reads both notations, which differ in the mark of a rule, in comments and in a few items.
class Reader {
 public:
  Reader(std::string_view text, const GrammarLimits& limits)
      : text_(text), limits_(limits), lark_(text.find("::=") == std::string_view::npos) {}

  StatusOr<Rules> read() {
    skip(true);
    while (at_ < text_.size()) {
      if (lark_ && text_[at_] == '%') {
        LS_RETURN_IF_ERROR(directive());
      } else {
        LS_RETURN_IF_ERROR(rule());
      }
      skip(true);
    }
    rules_.root = lark_ ? "start" : "root";
    if (!rules_.bodies.contains(rules_.root)) {
      return invalid_argument("the grammar has no rule '{}'", rules_.root);
    }
    if (!ignored_.children.empty()) {
      rules_.ignore = "%ignore";
      rules_.names.push_back(rules_.ignore);
      rules_.bodies[rules_.ignore] = repeat(std::move(ignored_), 0, -1);
    }
    return std::move(rules_);
  }

 private:
  Status fail(std::string_view what) const {
    const auto line = std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
    return invalid_argument("grammar, line {}: {}", line + 1, what);
  }
  bool eat(std::string_view s) {
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }
  bool at_end() const { return at_ >= text_.size(); }
  bool comment() const {
    return lark_ ? text_.substr(at_, 2) == "//" : text_[at_] == '#';
  }

  void skip(bool lines) {
    while (!at_end()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else if (comment()) {
        while (!at_end() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  // Behind a line's end the body goes on only where the next line begins with '|', or where the
  // last one ended with it and the next begins no rule.
  void skip_in_body(int depth, bool behind_bar) {
    skip(depth > 0);
    if (depth > 0 || at_end() || (text_[at_] != '\n' && text_[at_] != '\r')) return;
    const size_t here = at_;
    skip(true);
    const bool goes_on = !at_end() && (behind_bar ? !begins_rule() : text_[at_] == '|');
    if (!goes_on) at_ = here;
  }

  bool begins_rule() {
    const size_t here = at_;
    if (lark_ && (text_[at_] == '?' || text_[at_] == '!' || text_[at_] == '%')) ++at_;
    const bool named = !name().empty();
    skip(false);
    const bool begins = named && (lark_ ? text_[here] == '%' || text_.substr(at_, 1) == ":"
                                        : text_.substr(at_, 3) == "::=");
    at_ = here;
    return begins;
  }

  std::string name() {
    const size_t from = at_;
    while (!at_end() && is_name(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  Status rule() {
    if (lark_ && (text_[at_] == '?' || text_[at_] == '!')) ++at_;  // marks for the tree only
    const std::string rule_name = name();
    if (rule_name.empty()) return fail("a rule's name is missing");
    skip(false);
    if (lark_ && eat(".")) return fail("priorities are not supported");
    if (!eat(lark_ ? ":" : "::=")) return fail(lark_ ? "':' is missing" : "'::=' is missing");
    skip(!lark_);
    LS_ASSIGN_OR_RETURN(Part body, either(0));
    if (!at_end() && text_[at_] != '\n' && text_[at_] != '\r') return fail("unexpected character");
    if (rules_.bodies.contains(rule_name)) return fail("rule '" + rule_name + "' is given twice");
    rules_.names.push_back(rule_name);
    rules_.bodies[rule_name] = std::move(body);
    return ok_status();
  }

  Status directive() {
    if (!eat("%ignore")) return fail("only %ignore is supported");
    skip(false);
    LS_ASSIGN_OR_RETURN(Part body, either(0));
    ignored_.kind = Part::Kind::kEither;
    ignored_.children.push_back(std::move(body));
    return ok_status();
  }

  StatusOr<Part> either(int depth) {
    if (depth > limits_.depth_max) {
      return resource_exhausted("the grammar nests deeper than {}", limits_.depth_max);
    }
    Part part = make(Part::Kind::kEither);
    bool behind_bar = false;
    do {
      skip_in_body(depth, behind_bar);
      behind_bar = true;
      LS_ASSIGN_OR_RETURN(Part branch, sequence(depth));
      part.children.push_back(std::move(branch));
      skip_in_body(depth, false);
    } while (eat("|"));
    if (part.children.size() == 1) return std::move(part.children[0]);
    return part;
  }

  StatusOr<Part> sequence(int depth) {
    Part part = make(Part::Kind::kSequence);
    while (true) {
      skip(depth > 0);
      if (at_end()) break;
      const char c = text_[at_];
      if (c == '|' || c == ')' || c == '\n' || c == '\r' || (lark_ && c == ']')) break;
      if (lark_ && eat("->")) {  // a name for the tree
        skip(false);
        name();
        continue;
      }
      LS_ASSIGN_OR_RETURN(Part inner, item(depth));
      LS_ASSIGN_OR_RETURN(inner, counted(std::move(inner)));
      part.children.push_back(std::move(inner));
    }
    return part;
  }

  StatusOr<int> number() {
    int value = 0;
    const size_t from = at_;
    while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min(value * 10 + (text_[at_++] - '0'), 1'000'000);
    }
    if (at_ == from) return fail("a number is missing");
    if (value > limits_.repeat_max) {
      return resource_exhausted("more than {} repeats", limits_.repeat_max);
    }
    return value;
  }

  StatusOr<Part> counted(Part inner) {
    while (!at_end()) {
      if (eat("*")) {
        inner = repeat(std::move(inner), 0, -1);
      } else if (eat("+")) {
        inner = repeat(std::move(inner), 1, -1);
      } else if (eat("?")) {
        inner = repeat(std::move(inner), 0, 1);
      } else if (!lark_ && eat("{")) {
        int low = 0;
        if (at_end() || text_[at_] != ',') {
          LS_ASSIGN_OR_RETURN(low, number());
        }
        int high = low;
        if (eat(",")) {
          high = -1;
          if (!at_end() && text_[at_] != '}') {
            LS_ASSIGN_OR_RETURN(high, number());
          }
        }
        if (!eat("}") || (high >= 0 && high < low)) return fail("bad {n,m}");
        inner = repeat(std::move(inner), low, high);
      } else if (lark_ && eat("~")) {
        LS_ASSIGN_OR_RETURN(const int low, number());
        int high = low;
        if (eat("..")) {
          LS_ASSIGN_OR_RETURN(high, number());
        }
        if (high < low) return fail("bad ~n..m");
        inner = repeat(std::move(inner), low, high);
      } else {
        break;
      }
    }
    return inner;
  }

  StatusOr<Part> item(int depth) {
    const char c = text_[at_];
    if (c == '"') return quoted();
    if (c == '(' || (lark_ && c == '[')) {
      ++at_;
      LS_ASSIGN_OR_RETURN(Part inner, either(depth + 1));
      skip(true);
      if (!eat(c == '(' ? ")" : "]")) return fail("a bracket is not closed");
      return c == '(' ? std::move(inner) : repeat(std::move(inner), 0, 1);
    }
    if (c == '[') {
      Part part = make(Part::Kind::kClass);
      auto ranges = parse_char_class(text_, &at_);
      if (!ranges.ok()) return fail(message_of(ranges.status()));
      part.ranges = *std::move(ranges);
      return part;
    }
    if (!lark_ && c == '.') {
      ++at_;
      Part part = make(Part::Kind::kClass);
      part.ranges = {{0, kCodePointMax}};
      return part;
    }
    if (lark_ && c == '/') return slashed();
    if (!is_name(c)) return fail("unexpected character");
    Part part = make(Part::Kind::kRule);
    part.text = name();
    return part;
  }

  StatusOr<Part> slashed() {
    const size_t from = ++at_;
    bool in_class = false;
    while (!at_end() && (text_[at_] != '/' || in_class)) {
      if (text_[at_] == '[') in_class = true;
      if (text_[at_] == ']') in_class = false;
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    if (at_end()) return fail("'/' is not closed");
    Part part = make(Part::Kind::kRegex);
    auto regex = parse_plain_regex(text_.substr(from, at_ - from));
    if (!regex.ok()) return fail(message_of(regex.status()));
    part.regex = *std::move(regex);
    ++at_;
    if (!at_end() && text_[at_] >= 'a' && text_[at_] <= 'z') {
      return fail("flags of expressions are not supported");
    }
    return part;
  }

  StatusOr<Part> quoted() {
    ++at_;
    Part part = make(Part::Kind::kText);
    while (true) {
      if (at_end() || text_[at_] == '\n') return fail("'\"' is not closed");
      const char c = text_[at_++];
      if (c == '"') break;
      if (c != '\\') {
        part.text += c;
        continue;
      }
      LS_RETURN_IF_ERROR(escape(part.text));
    }
    if (lark_ && eat("i")) return fail("texts of either case are not supported");
    if (!lark_ || !eat("..")) return part;
    // "a".."z"
    skip(false);
    if (at_end() || text_[at_] != '"') return fail("the end of a range is missing");
    LS_ASSIGN_OR_RETURN(const Part high, quoted());
    if (part.text.size() != 1 || high.text.size() != 1) return fail("ranges are of single bytes");
    Part range = make(Part::Kind::kClass);
    range.ranges = {{static_cast<uint8_t>(part.text[0]), static_cast<uint8_t>(high.text[0])}};
    return range;
  }

  Status escape(std::string& out) {
    if (at_end()) return fail("lone backslash");
    const char c = text_[at_++];
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      return ok_status();
    }
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char d = at_end() ? '\0' : text_[at_];
      const int digit = d >= '0' && d <= '9'   ? d - '0'
                        : d >= 'a' && d <= 'f' ? d - 'a' + 10
                        : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                               : -1;
      if (digit < 0) return fail("bad hexadecimal escape");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > kCodePointMax || (value >= 0xd800 && value <= 0xdfff)) {
      return fail("no such code point");
    }
    if (value < 0x80) {
      out += static_cast<char>(value);
    } else {
      const int length = value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
      static constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
      out += static_cast<char>(kLead[length] | (value >> (6 * (length - 1))));
      for (int i = length - 2; i >= 0; --i) {
        out += static_cast<char>(0x80 | ((value >> (6 * i)) & 0x3f));
      }
    }
    return ok_status();
  }

  std::string_view text_;
  const GrammarLimits& limits_;
  bool lark_;
  size_t at_ = 0;
  Rules rules_;
  Part ignored_;
};

class Builder {
 public:
  Builder(Rules rules, const GrammarLimits& limits) : rules_(std::move(rules)), limits_(limits) {}

  StatusOr<Grammar> build() {
    for (const std::string& name : rules_.names) {
      index_.emplace(name, static_cast<int32_t>(index_.size()));
    }
    out_.rules.resize(rules_.names.size());
    for (const std::string& name : rules_.names) {
      const char first = name[0];
      // Nothing is ignored inside a terminal.
      ignoring_ = !rules_.ignore.empty() && name != rules_.ignore && first >= 'a' && first <= 'z';
      const int32_t end = add({Grammar::Op::kReturn, 0, 0, -1, -1});
      int32_t entry = part(rules_.bodies.at(name), end);
      if (ignoring_ && name == rules_.root) entry = call(rules_.ignore, entry);
      out_.rules[static_cast<size_t>(index_.at(name))] = entry;
      LS_RETURN_IF_ERROR(status_);
    }
    out_.root = index_.at(rules_.root);
    LS_RETURN_IF_ERROR(check_productive());
    return std::move(out_);
  }

 private:
  int32_t add(Grammar::Node node) {
    if (out_.nodes.size() >= limits_.nodes_max) {
      status_ = resource_exhausted("the grammar needs more than {} states", limits_.nodes_max);
      return 0;
    }
    out_.nodes.push_back(node);
    return static_cast<int32_t>(out_.nodes.size()) - 1;
  }

  int32_t call(const std::string& name, int32_t next) {
    const auto found = index_.find(name);
    if (found == index_.end()) {
      status_ = invalid_argument("grammar: there is no rule '{}'", name);
      return 0;
    }
    return add({Grammar::Op::kCall, 0, 0, next, found->second});
  }

  int32_t embed(const Nfa& nfa, int32_t next) {
    const auto offset = static_cast<int32_t>(out_.nodes.size());
    for (const Nfa::Node& node : nfa.nodes) {
      Grammar::Node copy{Grammar::Op::kSplit, node.low, node.high, node.next + offset,
                         node.other + offset};
      if (node.op == Nfa::Op::kBytes) copy.op = Grammar::Op::kBytes;
      if (node.op == Nfa::Op::kMatch) copy.next = copy.other = next;
      if (node.op == Nfa::Op::kBegin || node.op == Nfa::Op::kEnd) copy.other = copy.next;
      add(copy);
    }
    return nfa.start + offset;
  }

  int32_t code_points(const CodePointRanges& ranges, int32_t next) {
    NfaBuilder builder(limits_.nodes_max);
    const int32_t match = builder.add({Nfa::Op::kMatch, 0, 0, -1, -1});
    const int32_t entry = builder.code_points(ranges, match);
    return embed(builder.finish(entry), next);
  }

  int32_t part(const Part& p, int32_t next) {
    if (!status_.ok()) return 0;
    switch (p.kind) {
      case Part::Kind::kText: {
        int32_t entry = after_token(next);
        for (size_t i = p.text.size(); i-- > 0;) {
          const auto byte = static_cast<uint8_t>(p.text[i]);
          entry = add({Grammar::Op::kBytes, byte, byte, entry, -1});
        }
        return entry;
      }
      case Part::Kind::kClass: return code_points(p.ranges, after_token(next));
      case Part::Kind::kRegex: return embed(*p.regex, after_token(next));
      case Part::Kind::kRule: {
        const bool terminal = p.text[0] >= 'A' && p.text[0] <= 'Z';
        return call(p.text, terminal ? after_token(next) : next);
      }
      case Part::Kind::kSequence:
        for (auto child = p.children.rbegin(); child != p.children.rend(); ++child) {
          next = part(*child, next);
        }
        return next;
      case Part::Kind::kEither: {
        int32_t entry = part(p.children.back(), next);
        for (size_t i = p.children.size() - 1; i-- > 0;) {
          entry = add({Grammar::Op::kSplit, 0, 0, part(p.children[i], next), entry});
        }
        return entry;
      }
      case Part::Kind::kRepeat: return repeated(p, next);
    }
    return next;
  }

  int32_t repeated(const Part& p, int32_t next) {
    int32_t entry = next;
    if (p.high < 0) {
      entry = add({Grammar::Op::kSplit, 0, 0, -1, next});
      const int32_t loop = part(p.children[0], entry);
      out_.nodes[static_cast<size_t>(entry)].next = loop;
    } else {
      for (int i = p.low; i < p.high && status_.ok(); ++i) {
        entry = add({Grammar::Op::kSplit, 0, 0, part(p.children[0], entry), next});
      }
    }
    for (int i = 0; i < p.low && status_.ok(); ++i) entry = part(p.children[0], entry);
    return entry;
  }

  int32_t after_token(int32_t next) { return ignoring_ ? call(rules_.ignore, next) : next; }

  // A rule that can never end would be a dead end for an answer.
  Status check_productive() const {
    std::vector<bool> rule(out_.rules.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t r = 0; r < rule.size(); ++r) {
        if (rule[r] || !reaches_end(out_.rules[r], rule)) continue;
        rule[r] = changed = true;
      }
    }
    for (size_t r = 0; r < rule.size(); ++r) {
      if (!rule[r]) return invalid_argument("grammar: rule '{}' can never end", rules_.names[r]);
    }
    return ok_status();
  }

  bool reaches_end(int32_t from, const std::vector<bool>& rule) const {
    std::vector<int32_t> todo{from};
    std::set<int32_t> seen;
    while (!todo.empty()) {
      const int32_t at = todo.back();
      todo.pop_back();
      if (at < 0 || !seen.insert(at).second) continue;
      const Grammar::Node& node = out_.nodes[static_cast<size_t>(at)];
      if (node.op == Grammar::Op::kReturn) return true;
      if (node.op == Grammar::Op::kBytes && node.low > node.high) continue;
      if (node.op == Grammar::Op::kCall && !rule[static_cast<size_t>(node.other)]) continue;
      todo.push_back(node.next);
      if (node.op == Grammar::Op::kSplit) todo.push_back(node.other);
    }
    return false;
  }

  Rules rules_;
  const GrammarLimits& limits_;
  std::map<std::string, int32_t> index_;
  Grammar out_;
  bool ignoring_ = false;
  Status status_;
};

}  // namespace

StatusOr<Grammar> parse_grammar(std::string_view text, const GrammarLimits& limits) {
  if (text.size() > limits.text_bytes_max) {
    return resource_exhausted("a grammar has at most {} bytes", limits.text_bytes_max);
  }
  if (valid_utf8_prefix(text) != text.size()) return invalid_argument("grammar is not UTF-8");
  LS_ASSIGN_OR_RETURN(Rules rules, Reader(text, limits).read());
  return Builder(std::move(rules), limits).build();
}

StatusOr<Grammar> choice_grammar(const std::vector<std::string>& texts) {
  if (texts.empty()) return invalid_argument("a choice needs at least one text");
  Rules rules;
  rules.root = "root";
  rules.names = {"root"};
  Part either = make(Part::Kind::kEither);
  for (const std::string& text : texts) {
    Part part = make(Part::Kind::kText);
    part.text = text;
    either.children.push_back(std::move(part));
  }
  rules.bodies["root"] = std::move(either);
  const GrammarLimits limits;
  return Builder(std::move(rules), limits).build();
}

}  // namespace lineshaft::decoding
