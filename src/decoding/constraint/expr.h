// Expr: what a schema says about one JSON value, as a formula that is hash-consed.
//
// Every keyword is a leaf or a formula over leaves, so that allOf, anyOf, oneOf, not and
// if/then/else are plain logic, and a formula that has read a part of its value is again a formula
// (its residual). Equal formulas have equal ids, which makes them states. A leaf about one type is
// true of values of the other types, as in JSON Schema. Must not know texts or automata.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "decoding/constraint/decimal.h"

namespace lineshaft::decoding {

using ExprId = int32_t;

enum class JsonType : uint8_t { kNull, kTrue, kFalse, kNumber, kString, kArray, kObject };
inline constexpr int kJsonTypes = 7;
inline constexpr uint32_t type_bit(JsonType type) { return 1u << static_cast<int>(type); }
inline constexpr uint32_t kAnyType = (1u << kJsonTypes) - 1;
inline constexpr uint32_t kBooleans = type_bit(JsonType::kTrue) | type_bit(JsonType::kFalse);

inline constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

struct Expr {
  enum class Kind : uint8_t {
    kFalse,
    kTrue,
    kAnd,       // of children
    kOr,        // of children
    kNot,       // of a, a leaf
    kRef,       // the formula of schema number a, looked up when needed (recursion)
    kType,      // the value's type is in the set n
    kPattern,   // string: automaton number a matches
    kLength,    // string: at least n code points
    kIs,        // string: equals text number a
    kLess,      // number: < decimal number a
    kAtMost,    // number: <= decimal number a
    kMultiple,  // number: a multiple of decimal number a
    kWhole,     // number: written without fraction and exponent (integers of draft 4)
    kMembers,   // object: at least n members whose key fits a and whose value fits b
    kItems,     // array: at least n items at indices [low, high) that fit a
    kUnique,    // array: no two items are equal
  };
  Kind kind = Kind::kFalse;
  int64_t n = 0;
  int64_t low = 0;
  int64_t high = 0;
  int32_t a = 0;
  int32_t b = 0;
  std::vector<ExprId> children;  // ascending, no doubles
  auto operator<=>(const Expr&) const = default;
};

class ExprPool {
 public:
  static constexpr ExprId kFalse = 0;
  static constexpr ExprId kTrue = 1;

  ExprPool();

  const Expr& at(ExprId id) const { return exprs_[static_cast<size_t>(id)]; }
  size_t size() const { return exprs_.size(); }
  size_t memory_bytes() const { return memory_bytes_; }

  ExprId make_and(std::vector<ExprId> parts);
  ExprId make_or(std::vector<ExprId> parts);
  ExprId make_not(ExprId id);
  // Exactly one of `parts` holds.
  ExprId make_one_of(const std::vector<ExprId>& parts);
  ExprId ref(int32_t schema);
  ExprId types(uint32_t set);
  ExprId pattern(int32_t automaton);
  ExprId length_at_least(int64_t n);
  ExprId is(std::string_view text);
  ExprId less(const Decimal& bound);
  ExprId at_most(const Decimal& bound);
  ExprId multiple(const Decimal& step);
  ExprId whole();
  ExprId members(int64_t n, ExprId key, ExprId value);
  ExprId items(int64_t n, int64_t low, int64_t high, ExprId value);
  ExprId unique();

  // What kRef `schema` stands for.
  void define(int32_t schema, ExprId id);
  ExprId definition(int32_t schema) const { return definitions_[static_cast<size_t>(schema)]; }

  // `id` for a value of that type: only leaves of the type are left, references are looked up.
  ExprId project(ExprId id, JsonType type);

  // The formula with every leaf replaced by what `leaf` gives for it (and simplified). Negated
  // leaves are given as the kNot when `literals`, else their leaf is given and the result negated.
  ExprId substitute(ExprId id, const std::function<ExprId(ExprId)>& leaf, bool literals);
  // The leaves of a projected formula, each once.
  void leaves(std::span<const ExprId> ids, std::vector<ExprId>& out) const;
  // The truth of a projected formula when `leaf` tells that of its leaves.
  bool evaluate(ExprId id, const std::function<bool(ExprId)>& leaf) const;

  const std::string& text(int32_t index) const { return texts_[static_cast<size_t>(index)]; }
  const Decimal& decimal(int32_t index) const { return decimals_[static_cast<size_t>(index)]; }

 private:
  ExprId intern(Expr expr);
  ExprId join(Expr::Kind kind, std::vector<ExprId> parts);
  int32_t decimal_index(const Decimal& value);

  std::vector<Expr> exprs_;
  std::unordered_map<uint64_t, std::vector<ExprId>> by_hash_;
  std::vector<ExprId> definitions_;
  std::unordered_map<uint64_t, ExprId> projected_;
  std::unordered_map<ExprId, ExprId> negated_;
  std::vector<std::string> texts_;
  std::map<std::string, int32_t, std::less<>> text_index_;
  std::vector<Decimal> decimals_;
  size_t memory_bytes_ = 0;
};

}  // namespace lineshaft::decoding
