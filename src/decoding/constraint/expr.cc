#include "decoding/constraint/expr.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace lineshaft::decoding {
namespace {

using Kind = Expr::Kind;

uint64_t hash_of(const Expr& e) {
  const int64_t fields[] = {static_cast<int64_t>(e.kind), e.n, e.low, e.high, e.a, e.b};
  const uint64_t seed =
      xxh64({reinterpret_cast<const uint8_t*>(e.children.data()), e.children.size() * 4});
  return xxh64({reinterpret_cast<const uint8_t*>(fields), sizeof(fields)}, seed);
}

// The type a leaf speaks of; none for the others.
bool speaks_of(Kind kind, JsonType type) {
  switch (kind) {
    case Kind::kPattern:
    case Kind::kLength:
    case Kind::kIs:
      return type == JsonType::kString;
    case Kind::kLess:
    case Kind::kAtMost:
    case Kind::kMultiple:
    case Kind::kWhole:
      return type == JsonType::kNumber;
    case Kind::kMembers:
      return type == JsonType::kObject;
    case Kind::kItems:
    case Kind::kUnique:
      return type == JsonType::kArray;
    default:
      return false;
  }
}

Expr leaf_of(Kind kind, int64_t n, int32_t a, int32_t b = 0, int64_t low = 0, int64_t high = 0) {
  return Expr{kind, n, low, high, a, b, {}};
}

}  // namespace

ExprPool::ExprPool() {
  intern(leaf_of(Kind::kFalse, 0, 0));
  intern(leaf_of(Kind::kTrue, 0, 0));
}

ExprId ExprPool::intern(Expr expr) {
  auto& same_hash = by_hash_[hash_of(expr)];
  for (const ExprId candidate : same_hash) {
    if (at(candidate) == expr) return candidate;
  }
  const auto id = static_cast<ExprId>(exprs_.size());
  memory_bytes_ += sizeof(Expr) + 4 * expr.children.size() + 48;
  exprs_.push_back(std::move(expr));
  same_hash.push_back(id);
  return id;
}

// Joins by kAnd or kOr: nested joins are flattened, constants and doubles go, and so does the whole
// where it holds a formula beside its negation.
ExprId ExprPool::join(Kind kind, std::vector<ExprId> parts) {
  const ExprId neutral = kind == Kind::kAnd ? kTrue : kFalse;
  const ExprId decided = kind == Kind::kAnd ? kFalse : kTrue;
  std::vector<ExprId> flat;
  for (const ExprId part : parts) {
    if (part == decided) return decided;
    if (part == neutral) continue;
    if (at(part).kind == kind) {
      const auto& inner = at(part).children;
      flat.insert(flat.end(), inner.begin(), inner.end());
    } else {
      flat.push_back(part);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  uint32_t types_met = kind == Kind::kAnd ? kAnyType : 0;
  bool has_types = false;
  for (const ExprId part : flat) {
    const Expr& e = at(part);
    if (e.kind == Kind::kNot && std::binary_search(flat.begin(), flat.end(), e.a)) return decided;
    if (e.kind != Kind::kType) continue;
    has_types = true;
    types_met = kind == Kind::kAnd ? types_met & static_cast<uint32_t>(e.n)
                                   : types_met | static_cast<uint32_t>(e.n);
  }
  if (has_types) {
    std::erase_if(flat, [&](ExprId part) { return at(part).kind == Kind::kType; });
    const ExprId set = types(types_met);
    if (set == decided) return decided;
    if (set != neutral) flat.insert(std::lower_bound(flat.begin(), flat.end(), set), set);
  }
  if (flat.empty()) return neutral;
  if (flat.size() == 1) return flat[0];
  return intern(Expr{kind, 0, 0, 0, 0, 0, std::move(flat)});
}

ExprId ExprPool::make_and(std::vector<ExprId> parts) { return join(Kind::kAnd, std::move(parts)); }
ExprId ExprPool::make_or(std::vector<ExprId> parts) { return join(Kind::kOr, std::move(parts)); }

ExprId ExprPool::make_not(ExprId id) {
  if (id == kFalse) return kTrue;
  if (id == kTrue) return kFalse;
  const Kind kind = at(id).kind;
  if (kind == Kind::kNot) return at(id).a;
  if (kind == Kind::kType) return types(kAnyType & ~static_cast<uint32_t>(at(id).n));
  if (kind != Kind::kAnd && kind != Kind::kOr) return intern(leaf_of(Kind::kNot, 0, id));
  if (const auto found = negated_.find(id); found != negated_.end()) return found->second;
  std::vector<ExprId> parts;
  const std::vector<ExprId> children = at(id).children;
  for (const ExprId child : children) parts.push_back(make_not(child));
  const ExprId result = join(kind == Kind::kAnd ? Kind::kOr : Kind::kAnd, std::move(parts));
  negated_.emplace(id, result);
  return result;
}

ExprId ExprPool::make_one_of(const std::vector<ExprId>& parts) {
  std::vector<ExprId> cases;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<ExprId> only{parts[i]};
    for (size_t j = 0; j < parts.size(); ++j) {
      if (j != i) only.push_back(make_not(parts[j]));
    }
    cases.push_back(make_and(std::move(only)));
  }
  return make_or(std::move(cases));
}

ExprId ExprPool::ref(int32_t schema) { return intern(leaf_of(Kind::kRef, 0, schema)); }

ExprId ExprPool::types(uint32_t set) {
  if (set == 0) return kFalse;
  if (set == kAnyType) return kTrue;
  return intern(leaf_of(Kind::kType, set, 0));
}

ExprId ExprPool::pattern(int32_t automaton) {
  return intern(leaf_of(Kind::kPattern, 0, automaton));
}

ExprId ExprPool::length_at_least(int64_t n) {
  return n <= 0 ? kTrue : intern(leaf_of(Kind::kLength, n, 0));
}

ExprId ExprPool::is(std::string_view text) {
  auto found = text_index_.find(text);
  if (found == text_index_.end()) {
    found = text_index_.emplace(std::string(text), static_cast<int32_t>(texts_.size())).first;
    texts_.emplace_back(text);
  }
  return intern(leaf_of(Kind::kIs, 0, found->second));
}

int32_t ExprPool::decimal_index(const Decimal& value) {
  for (size_t i = 0; i < decimals_.size(); ++i) {
    if (compare(decimals_[i], value) == 0) return static_cast<int32_t>(i);
  }
  decimals_.push_back(value);
  return static_cast<int32_t>(decimals_.size()) - 1;
}

ExprId ExprPool::less(const Decimal& bound) {
  return intern(leaf_of(Kind::kLess, 0, decimal_index(bound)));
}
ExprId ExprPool::at_most(const Decimal& bound) {
  return intern(leaf_of(Kind::kAtMost, 0, decimal_index(bound)));
}
ExprId ExprPool::multiple(const Decimal& step) {
  return intern(leaf_of(Kind::kMultiple, 0, decimal_index(step)));
}
ExprId ExprPool::whole() { return intern(leaf_of(Kind::kWhole, 0, 0)); }

ExprId ExprPool::members(int64_t n, ExprId key, ExprId value) {
  if (n <= 0) return kTrue;
  if (key == kFalse || value == kFalse) {
    return types(kAnyType & ~type_bit(JsonType::kObject));
  }
  return intern(leaf_of(Kind::kMembers, n, key, value));
}

ExprId ExprPool::items(int64_t n, int64_t low, int64_t high, ExprId value) {
  if (n <= 0) return kTrue;
  if (value == kFalse || high <= low || (high != kNoEnd && high - low < n)) {
    return types(kAnyType & ~type_bit(JsonType::kArray));
  }
  return intern(leaf_of(Kind::kItems, n, value, 0, low, high));
}

ExprId ExprPool::unique() { return intern(leaf_of(Kind::kUnique, 0, 0)); }

void ExprPool::define(int32_t schema, ExprId id) {
  if (definitions_.size() <= static_cast<size_t>(schema)) {
    definitions_.resize(static_cast<size_t>(schema) + 1, kTrue);
  }
  definitions_[static_cast<size_t>(schema)] = id;
}

ExprId ExprPool::project(ExprId id, JsonType type) {
  if (id <= kTrue) return id;
  const uint64_t key = static_cast<uint64_t>(id) * kJsonTypes + static_cast<uint64_t>(type);
  if (const auto found = projected_.find(key); found != projected_.end()) return found->second;
  const Expr e = at(id);
  ExprId result = id;
  switch (e.kind) {
    case Kind::kAnd:
    case Kind::kOr: {
      std::vector<ExprId> parts;
      for (const ExprId child : e.children) parts.push_back(project(child, type));
      result = join(e.kind, std::move(parts));
      break;
    }
    case Kind::kNot:
      result = make_not(project(e.a, type));
      break;
    case Kind::kRef:
      result = project(definition(e.a), type);
      break;
    case Kind::kType:
      result = (static_cast<uint32_t>(e.n) & type_bit(type)) != 0 ? kTrue : kFalse;
      break;
    default:
      result = speaks_of(e.kind, type) ? id : kTrue;
  }
  projected_.emplace(key, result);
  return result;
}

ExprId ExprPool::substitute(ExprId id, const std::function<ExprId(ExprId)>& leaf, bool literals) {
  if (id <= kTrue) return id;
  const Kind kind = at(id).kind;
  if (kind == Kind::kAnd || kind == Kind::kOr) {
    const std::vector<ExprId> children = at(id).children;
    const ExprId decided = kind == Kind::kAnd ? kFalse : kTrue;
    std::vector<ExprId> parts;
    for (const ExprId child : children) {
      parts.push_back(substitute(child, leaf, literals));
      if (parts.back() == decided) return decided;
    }
    return join(kind, std::move(parts));
  }
  if (kind == Kind::kNot && !literals) return make_not(leaf(at(id).a));
  return leaf(id);
}

void ExprPool::leaves(std::span<const ExprId> ids, std::vector<ExprId>& out) const {
  std::vector<ExprId> todo(ids.begin(), ids.end());
  std::unordered_map<ExprId, bool> seen;
  while (!todo.empty()) {
    const ExprId id = todo.back();
    todo.pop_back();
    if (id <= kTrue || !seen.emplace(id, true).second) continue;
    const Expr& e = at(id);
    if (e.kind == Kind::kAnd || e.kind == Kind::kOr) {
      todo.insert(todo.end(), e.children.begin(), e.children.end());
    } else if (e.kind == Kind::kNot) {
      todo.push_back(e.a);
    } else {
      out.push_back(id);
    }
  }
  std::sort(out.begin(), out.end());
}

bool ExprPool::evaluate(ExprId id, const std::function<bool(ExprId)>& leaf) const {
  const Expr& e = at(id);
  switch (e.kind) {
    case Kind::kFalse: return false;
    case Kind::kTrue: return true;
    case Kind::kAnd:
      return std::all_of(e.children.begin(), e.children.end(),
                         [&](ExprId child) { return evaluate(child, leaf); });
    case Kind::kOr:
      return std::any_of(e.children.begin(), e.children.end(),
                         [&](ExprId child) { return evaluate(child, leaf); });
    case Kind::kNot: return !leaf(e.a);
    default: return leaf(id);
  }
}

}  // namespace lineshaft::decoding
