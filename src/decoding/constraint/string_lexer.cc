#include "decoding/constraint/string_lexer.h"

#include <algorithm>
#include <set>

#include "base/hash.h"

namespace lineshaft::decoding {
namespace {

using Kind = Expr::Kind;

// Above this many code points a length is counted beside the state, never inside it.
constexpr int64_t kUnrolledMax = 256;
constexpr size_t kLiveSearchMax = 20'000;   // products; beyond: taken for possible
constexpr size_t kUniversalSearchMax = 256;

// States of a UTF-8 checker: 0 is between code points; the others say what may come.
constexpr int32_t kBadUtf8 = -1;
int32_t utf8_step(int32_t state, uint8_t b) {
  const bool trailing = b >= 0x80 && b <= 0xbf;
  switch (state) {
    case 0:
      if (b < 0x80) return 0;
      if (b >= 0xc2 && b <= 0xdf) return 1;
      if (b == 0xe0) return 4;
      if (b == 0xed) return 5;
      if (b >= 0xe1 && b <= 0xef) return 2;
      if (b == 0xf0) return 6;
      if (b >= 0xf1 && b <= 0xf3) return 3;
      return b == 0xf4 ? 7 : kBadUtf8;
    case 1: return trailing ? 0 : kBadUtf8;
    case 2: return trailing ? 1 : kBadUtf8;
    case 3: return trailing ? 2 : kBadUtf8;
    case 4: return b >= 0xa0 && b <= 0xbf ? 1 : kBadUtf8;
    case 5: return b >= 0x80 && b <= 0x9f ? 1 : kBadUtf8;
    case 6: return b >= 0x90 && b <= 0xbf ? 2 : kBadUtf8;
    case 7: return b >= 0x80 && b <= 0x8f ? 2 : kBadUtf8;
    default: return kBadUtf8;
  }
}

int utf8_bytes(uint32_t c, std::array<uint8_t, 4>& out) {
  if (c < 0x80) {
    out[0] = static_cast<uint8_t>(c);
    return 1;
  }
  const int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static constexpr uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (int i = length - 1; i > 0; --i) {
    out[static_cast<size_t>(i)] = static_cast<uint8_t>(0x80 | (c & 0x3f));
    c >>= 6;
  }
  out[0] = static_cast<uint8_t>(kLead[length] | c);
  return length;
}

int hex_value(uint8_t b) {
  if (b >= '0' && b <= '9') return b - '0';
  if (b >= 'a' && b <= 'f') return b - 'a' + 10;
  if (b >= 'A' && b <= 'F') return b - 'A' + 10;
  return -1;
}

}  // namespace

int32_t Outcomes::intern(const std::vector<bool>& values) {
  const auto [found, is_new] = index_.emplace(values, static_cast<int32_t>(values_.size()));
  if (is_new) values_.push_back(values);
  return found->second;
}

void StringLexer::add_pattern(std::shared_ptr<const Nfa> nfa) {
  patterns_.push_back(std::make_unique<LazyDfa>(std::move(nfa), true));
}

const StringLexer::Spec& StringLexer::spec_of(int32_t state) const {
  const Lex& l = lexes_[static_cast<size_t>(state)];
  return specs_[static_cast<size_t>(products_[static_cast<size_t>(l.product)].spec)];
}

int32_t StringLexer::spec(const std::vector<ExprId>& outputs) {
  const auto [found, is_new] = spec_index_.emplace(outputs, static_cast<int32_t>(specs_.size()));
  if (!is_new) return found->second;
  Spec spec;
  spec.outputs = outputs;
  plan(spec);
  specs_.push_back(std::move(spec));
  return found->second;
}

void StringLexer::plan(Spec& spec) {
  std::vector<ExprId> leaves;
  pool_.leaves(spec.outputs, leaves);
  spec.node_text.push_back(-1);
  std::vector<int32_t> texts;
  for (const ExprId leaf : leaves) {
    const Expr& e = pool_.at(leaf);
    if (e.kind == Kind::kIs) texts.push_back(e.a);
    if (e.kind == Kind::kPattern) spec.patterns.push_back(e.a);
    if (e.kind == Kind::kLength) spec.lengths.push_back(e.n);
  }
  std::sort(spec.lengths.begin(), spec.lengths.end());
  for (const int32_t text : texts) add_text(spec, text);
  std::sort(spec.edges.begin(), spec.edges.end());
  if (!spec.lengths.empty()) {
    const bool alone = spec.patterns.empty() && texts.empty();
    spec.unrolled = !alone && spec.lengths.back() <= kUnrolledMax;
    spec.counted = !spec.unrolled;
  }
  find_representatives(spec);
  memory_bytes_ += sizeof(Spec) + 12 * spec.edges.size() + 4 * spec.outputs.size() + 300;
}

void StringLexer::add_text(Spec& spec, int32_t text) {
  int32_t node = 0;
  for (const char c : pool_.text(text)) {
    const auto byte = static_cast<int32_t>(static_cast<uint8_t>(c));
    const auto edge = std::lower_bound(spec.edges.begin(), spec.edges.end(),
                                       std::array<int32_t, 3>{node, byte, 0});
    if (edge != spec.edges.end() && (*edge)[0] == node && (*edge)[1] == byte) {
      node = (*edge)[2];
    } else {
      const auto fresh = static_cast<int32_t>(spec.node_text.size());
      spec.edges.insert(edge, {node, byte, fresh});
      spec.node_text.push_back(-1);
      node = fresh;
    }
  }
  spec.node_text[static_cast<size_t>(node)] = text;
}

void StringLexer::find_representatives(Spec& spec) {
  std::array<bool, 256> in_trie{};
  for (const auto& edge : spec.edges) in_trie[static_cast<size_t>(edge[1])] = true;
  std::set<std::vector<int>> met;
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    std::vector<int> signature{in_trie[b] ? byte : -1};
    for (int32_t state = 0; state < 8; ++state) signature.push_back(utf8_step(state, b));
    for (const int32_t pattern : spec.patterns) {
      signature.push_back(patterns_[static_cast<size_t>(pattern)]->class_of(b));
    }
    if (met.insert(std::move(signature)).second) spec.representatives.push_back(b);
  }
}

int32_t StringLexer::product(int32_t spec, std::vector<int32_t> parts) {
  const uint64_t hash = xxh64({reinterpret_cast<const uint8_t*>(parts.data()), parts.size() * 4},
                              static_cast<uint64_t>(spec));
  auto& same_hash = product_index_[hash];
  for (const int32_t candidate : same_hash) {
    const Product& p = products_[static_cast<size_t>(candidate)];
    if (p.spec == spec && p.parts == parts) return candidate;
  }
  const auto id = static_cast<int32_t>(products_.size());
  memory_bytes_ += sizeof(Product) + 4 * parts.size() + 64;
  products_.push_back({spec, std::move(parts), -1, -1});
  same_hash.push_back(id);
  return id;
}

int StringLexer::trie_step(const Spec& spec, int32_t node, uint8_t byte) const {
  if (node < 0) return -1;
  const auto edge = std::lower_bound(spec.edges.begin(), spec.edges.end(),
                                     std::array<int32_t, 3>{node, byte, 0});
  return edge != spec.edges.end() && (*edge)[0] == node && (*edge)[1] == byte ? (*edge)[2] : -1;
}

// -1 when the byte can't be in UTF-8 here.
int32_t StringLexer::product_step(int32_t from, uint8_t byte) {
  const uint64_t key = static_cast<uint64_t>(from) << 8 | byte;
  if (const auto found = product_edges_.find(key); found != product_edges_.end()) {
    return found->second;
  }
  const Product& p = products_[static_cast<size_t>(from)];
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  std::vector<int32_t> parts = p.parts;
  int32_t result = -1;
  const int32_t utf8 = utf8_step(parts[0], byte);
  if (utf8 != kBadUtf8) {
    if (spec.unrolled && parts[0] == 0) {
      parts.back() = std::min(parts.back() + 1, static_cast<int32_t>(spec.lengths.back()));
    }
    parts[0] = utf8;
    parts[1] = trie_step(spec, parts[1], byte);
    for (size_t i = 0; i < spec.patterns.size(); ++i) {
      parts[2 + i] = patterns_[static_cast<size_t>(spec.patterns[i])]->next(parts[2 + i], byte);
    }
    result = product(p.spec, std::move(parts));
  }
  product_edges_.emplace(key, result);
  memory_bytes_ += 32;
  return result;
}

int32_t StringLexer::product_code_point(int32_t from, uint32_t c) {
  std::array<uint8_t, 4> bytes{};
  const int length = utf8_bytes(c, bytes);
  for (int i = 0; i < length && from >= 0; ++i) {
    from = product_step(from, bytes[static_cast<size_t>(i)]);
  }
  return from;
}

bool StringLexer::holds(const Product& p, ExprId formula, int64_t count) const {
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  const int32_t text = p.parts[1] < 0 ? -1 : spec.node_text[static_cast<size_t>(p.parts[1])];
  const int64_t length = spec.unrolled ? p.parts.back() : count;
  return pool_.evaluate(formula, [&](ExprId leaf) {
    const Expr& e = pool_.at(leaf);
    if (e.kind == Kind::kIs) return e.a == text;
    if (e.kind == Kind::kLength) return length >= e.n;
    const auto found = std::find(spec.patterns.begin(), spec.patterns.end(), e.a);
    const auto i = static_cast<size_t>(found - spec.patterns.begin());
    return patterns_[static_cast<size_t>(e.a)]->accepts(p.parts[2 + i]);
  });
}

// A text may end here, at some count.
bool StringLexer::can_end(const Product& p) const {
  if (p.parts[0] != 0) return false;
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  if (!spec.counted) return holds(p, spec.outputs[0], 0);
  if (holds(p, spec.outputs[0], 0)) return true;
  return std::any_of(spec.lengths.begin(), spec.lengths.end(),
                     [&](int64_t n) { return holds(p, spec.outputs[0], n); });
}

// Bytes that stand for all that may come: one of each class, or where only fixed texts count, those
// that go on in one and one that leaves them.
void StringLexer::successors(const Product& p, std::vector<uint8_t>& out) const {
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  if (!spec.patterns.empty() || spec.unrolled) {
    out = spec.representatives;
    return;
  }
  out.clear();
  const int32_t node = p.parts[1];
  if (node >= 0) {
    auto edge = std::lower_bound(spec.edges.begin(), spec.edges.end(),
                                 std::array<int32_t, 3>{node, 0, 0});
    for (; edge != spec.edges.end() && (*edge)[0] == node; ++edge) {
      out.push_back(static_cast<uint8_t>((*edge)[1]));
    }
  }
  const size_t edges = out.size();
  const auto leaves = [&](uint8_t byte) {
    return utf8_step(p.parts[0], byte) != kBadUtf8 &&
           std::find(out.begin(), out.begin() + static_cast<ptrdiff_t>(edges), byte) ==
               out.begin() + static_cast<ptrdiff_t>(edges);
  };
  for (int byte = 0; byte < 256; ++byte) {
    if (!leaves(static_cast<uint8_t>(byte))) continue;
    out.push_back(static_cast<uint8_t>(byte));
    break;
  }
}

// Depth first: the end of some text is near, while all texts together may be many.
bool StringLexer::live(int32_t start) {
  if (products_[static_cast<size_t>(start)].live >= 0) {
    return products_[static_cast<size_t>(start)].live == 1;
  }
  std::vector<std::pair<int32_t, size_t>> met{{start, 0}};  // product, place of its parent
  std::vector<size_t> todo{0};
  std::unordered_map<int32_t, bool> seen{{start, true}};
  std::vector<uint8_t> bytes;
  while (!todo.empty()) {
    const size_t at = todo.back();
    todo.pop_back();
    const int32_t current = met[at].first;
    const Product& p = products_[static_cast<size_t>(current)];
    if (p.live == 1 || can_end(p) || met.size() > kLiveSearchMax) {
      for (size_t back = at;; back = met[back].second) {
        products_[static_cast<size_t>(met[back].first)].live = 1;
        if (back == 0) break;
      }
      return true;
    }
    successors(p, bytes);
    for (const uint8_t byte : bytes) {
      const int32_t next = product_step(current, byte);
      if (next < 0 || products_[static_cast<size_t>(next)].live == 0) continue;
      if (!seen.emplace(next, true).second) continue;
      todo.push_back(met.size());
      met.emplace_back(next, at);
    }
  }
  for (const auto& [product, parent] : met) products_[static_cast<size_t>(product)].live = 0;
  return false;
}

// Some code point leads on from a product between code points.
bool StringLexer::live_onward(int32_t product) {
  std::vector<uint8_t> bytes;
  successors(products_[static_cast<size_t>(product)], bytes);
  return std::any_of(bytes.begin(), bytes.end(), [&](uint8_t byte) {
    const int32_t next = product_step(product, byte);
    return next >= 0 && live(next);
  });
}

// Some code point in [low, high] leads to a live product; the range lies within one UTF-8 length or
// is split into such.
bool StringLexer::live_range(int32_t product, uint32_t low, uint32_t high) {
  if (high < low) return false;
  static constexpr uint32_t kEnds[] = {0x7f, 0x7ff, 0xffff};
  for (const uint32_t end : kEnds) {
    if (low <= end && end < high) {
      return live_range(product, low, end) || live_range(product, end + 1, high);
    }
  }
  if (low == high) {
    const int32_t next = product_code_point(product, low);
    return next >= 0 && live(next);
  }
  // By lead bytes first: where the lead is dead, its block is skipped.
  const uint32_t block = high < 0x80 ? 1 : high < 0x800 ? 64 : high < 0x10000 ? 4096 : 262144;
  for (uint32_t c = low; c <= high;) {
    const uint32_t end = std::min(high, c | (block - 1));
    std::array<uint8_t, 4> bytes{};
    const int length = utf8_bytes(c, bytes);
    int32_t next = product_step(product, bytes[0]);
    if (next >= 0 && live(next)) {
      if (length == 1) return true;
      for (uint32_t inner = c; inner <= end;) {
        const uint32_t inner_end = std::min(end, inner | 63);
        utf8_bytes(inner, bytes);
        int32_t at = next;
        for (int i = 1; i + 1 < length && at >= 0; ++i) {
          at = product_step(at, bytes[static_cast<size_t>(i)]);
        }
        if (at >= 0 && live(at)) {
          for (uint32_t last = inner; last <= inner_end; ++last) {
            const int32_t done = product_step(at, static_cast<uint8_t>(0x80 | (last & 63)));
            if (done >= 0 && live(done)) return true;
          }
        }
        inner = inner_end + 1;
      }
    }
    c = end + 1;
  }
  return false;
}

int32_t StringLexer::lex(int32_t product, Mode mode, int digits, uint32_t value) {
  const std::array<uint64_t, 2> key{
      static_cast<uint64_t>(product) << 16 | static_cast<uint64_t>(mode) << 8 |
          static_cast<uint64_t>(digits),
      value};
  const auto [found, is_new] = lex_index_.emplace(key, static_cast<int32_t>(lexes_.size()));
  if (is_new) {
    Lex& l = lexes_.emplace_back();
    l.product = product;
    l.mode = mode;
    l.digits = digits;
    l.value = value;
    l.next.fill(kUnknown);
    memory_bytes_ += sizeof(Lex) + 64;
  }
  return found->second;
}

int32_t StringLexer::start(int32_t spec_id) {
  const Spec& spec = specs_[static_cast<size_t>(spec_id)];
  std::vector<int32_t> parts{0, spec.edges.empty() && spec.node_text[0] < 0 ? -1 : 0};
  for (const int32_t pattern : spec.patterns) {
    parts.push_back(patterns_[static_cast<size_t>(pattern)]->start());
  }
  if (spec.unrolled) parts.push_back(0);
  const int32_t first = product(spec_id, std::move(parts));
  return live(first) ? lex(first, Mode::kPlain, 0, 0) : kReject;
}

int32_t StringLexer::make_next(int32_t state, uint8_t byte) {
  const Lex from = lexes_[static_cast<size_t>(state)];
  int32_t next = kReject;
  switch (from.mode) {
    case Mode::kPlain:
      next = plain_step(from, byte);
      break;
    case Mode::kEscape:
      next = escape_step(from, byte);
      break;
    case Mode::kLowBackslash:
      if (byte == '\\') next = lex(from.product, Mode::kLowU, 0, from.value);
      break;
    case Mode::kLowU:
      if (byte == 'u') next = lex(from.product, Mode::kLowHex, 0, from.value);
      break;
    case Mode::kHex:
    case Mode::kLowHex:
      next = hex_step(from, byte);
      break;
  }
  lexes_[static_cast<size_t>(state)].next[byte] = next;
  return next;
}

int32_t StringLexer::plain_step(const Lex& from, uint8_t byte) {
  const bool boundary = products_[static_cast<size_t>(from.product)].parts[0] == 0;
  if (byte == '"') return boundary ? kClose : kReject;
  if (byte < 0x20) return kReject;
  if (byte == '\\') {
    // An escape can write any code point, so one that leads on is enough.
    const bool possible = boundary && live_onward(from.product);
    return possible ? lex(from.product, Mode::kEscape, 0, 0) : kReject;
  }
  const int32_t next = product_step(from.product, byte);
  if (next < 0 || !live(next)) return kReject;
  return lex(next, Mode::kPlain, 0, 0) | (boundary ? kCounts : 0);
}

int32_t StringLexer::after_code_point(int32_t product, uint32_t c) {
  const int32_t next = product_code_point(product, c);
  return next >= 0 && live(next) ? (lex(next, Mode::kPlain, 0, 0) | kCounts) : kReject;
}

int32_t StringLexer::escape_step(const Lex& from, uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return after_code_point(from.product, byte);
    case 'b': return after_code_point(from.product, '\b');
    case 'f': return after_code_point(from.product, '\f');
    case 'n': return after_code_point(from.product, '\n');
    case 'r': return after_code_point(from.product, '\r');
    case 't': return after_code_point(from.product, '\t');
    case 'u': return lex(from.product, Mode::kHex, 0, 0);
    default: return kReject;
  }
}

int32_t StringLexer::hex_step(const Lex& from, uint8_t byte) {
  const int digit = hex_value(byte);
  if (digit < 0) return kReject;
  const uint32_t high_half = from.value & 0xffff0000u;
  const uint32_t value = ((from.value & 0xffff) << 4) | static_cast<uint32_t>(digit);
  const int digits = from.digits + 1;
  const uint32_t low = value << (4 * (4 - digits));
  const uint32_t high = low | ((1u << (4 * (4 - digits))) - 1);
  if (from.mode == Mode::kLowHex) {
    const uint32_t base = 0x10000 + (((high_half >> 16) - 0xd800) << 10);
    if (high < 0xdc00 || low > 0xdfff) return kReject;
    if (digits == 4) return after_code_point(from.product, base + (value - 0xdc00));
    const uint32_t first = base + (std::max(low, 0xdc00u) - 0xdc00);
    const uint32_t last = base + (std::min(high, 0xdfffu) - 0xdc00);
    return live_range(from.product, first, last)
               ? lex(from.product, Mode::kLowHex, digits, high_half | value)
               : kReject;
  }
  const auto pair_possible = [&](uint32_t from_high, uint32_t to_high) {
    return from_high <= to_high &&
           live_range(from.product, 0x10000 + ((from_high - 0xd800) << 10),
                      0x10000 + ((to_high - 0xd800) << 10) + 0x3ff);
  };
  if (digits == 4) {
    if (value >= 0xdc00 && value <= 0xdfff) return kReject;
    if (value < 0xd800 || value > 0xdbff) return after_code_point(from.product, value);
    return pair_possible(value, value) ? lex(from.product, Mode::kLowBackslash, 0, value << 16)
                                       : kReject;
  }
  const bool possible = (low < 0xd800 && live_range(from.product, low, std::min(high, 0xd7ffu))) ||
                        (high > 0xdfff && live_range(from.product, std::max(low, 0xe000u), high)) ||
                        (high >= 0xd800 && low <= 0xdbff &&
                         pair_possible(std::max(low, 0xd800u), std::min(high, 0xdbffu)));
  return possible ? lex(from.product, Mode::kHex, digits, value) : kReject;
}

bool StringLexer::count_possible(int32_t state, int64_t count) {
  const Lex& l = lexes_[static_cast<size_t>(state)];
  const Product& p = products_[static_cast<size_t>(l.product)];
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  if (!spec.counted) return true;
  // What the patterns will say is open; what the lengths can still say is asked one by one.
  const auto possible_at = [&](int64_t length) {
    if (spec.patterns.empty() && spec.edges.empty()) return holds(p, spec.outputs[0], length);
    const std::function<int(ExprId)> truth = [&](ExprId id) -> int {  // 0 false, 1 true, 2 open
      const Expr& e = pool_.at(id);
      if (e.kind == Kind::kFalse || e.kind == Kind::kTrue) return e.kind == Kind::kTrue ? 1 : 0;
      if (e.kind == Kind::kLength) return length >= e.n ? 1 : 0;
      if (e.kind == Kind::kNot) return truth(e.a) == 2 ? 2 : 1 - truth(e.a);
      if (e.kind != Kind::kAnd && e.kind != Kind::kOr) return 2;
      const int decided = e.kind == Kind::kAnd ? 0 : 1;
      int result = 1 - decided;
      for (const ExprId child : e.children) {
        const int t = truth(child);
        if (t == decided) return decided;
        if (t == 2) result = 2;
      }
      return result;
    };
    return truth(spec.outputs[0]) != 0;
  };
  if (possible_at(count)) return true;
  return std::any_of(spec.lengths.begin(), spec.lengths.end(),
                     [&](int64_t n) { return n > count && possible_at(n); });
}

int32_t StringLexer::outcome(int32_t state, int64_t count) {
  const Product& p = products_[static_cast<size_t>(lexes_[static_cast<size_t>(state)].product)];
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  if (!holds(p, spec.outputs[0], count)) return kReject;
  std::vector<bool> values;
  for (const ExprId output : spec.outputs) values.push_back(holds(p, output, count));
  return outcomes_.intern(values);
}

int32_t StringLexer::text_index(int32_t state) const {
  const Product& p = products_[static_cast<size_t>(lexes_[static_cast<size_t>(state)].product)];
  const Spec& spec = specs_[static_cast<size_t>(p.spec)];
  return p.parts[1] < 0 ? -1 : spec.node_text[static_cast<size_t>(p.parts[1])];
}

bool StringLexer::at_boundary(int32_t state) const {
  const Lex& l = lexes_[static_cast<size_t>(state)];
  return l.mode == Mode::kPlain && products_[static_cast<size_t>(l.product)].parts[0] == 0;
}

bool StringLexer::universal(int32_t state) {
  if (!at_boundary(state)) return false;
  const int32_t product = lexes_[static_cast<size_t>(state)].product;
  int8_t known = products_[static_cast<size_t>(product)].universal;
  if (known < 0) {
    known = explore_universal(product) ? 1 : 0;
    products_[static_cast<size_t>(product)].universal = known;
  }
  return known == 1;
}

bool StringLexer::explore_universal(int32_t start) {
  {
    // Without patterns any text can leave the fixed ones by one code point more.
    const Product& p = products_[static_cast<size_t>(start)];
    const Spec& spec = specs_[static_cast<size_t>(p.spec)];
    if (spec.patterns.empty() && !spec.unrolled) {
      return can_end(products_[static_cast<size_t>(product(p.spec, {0, -1}))]);
    }
  }
  std::vector<int32_t> queue{start};
  std::unordered_map<int32_t, bool> seen{{start, true}};
  for (size_t at = 0; at < queue.size(); ++at) {
    if (queue.size() > kUniversalSearchMax) return false;
    const int32_t spec_id = products_[static_cast<size_t>(queue[at])].spec;
    const auto& bytes = specs_[static_cast<size_t>(spec_id)].representatives;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int32_t next = product_step(queue[at], bytes[i]);
      if (next < 0) continue;  // not UTF-8
      if (!live(next)) return false;
      if (seen.emplace(next, true).second) queue.push_back(next);
    }
  }
  return true;
}

}  // namespace lineshaft::decoding
