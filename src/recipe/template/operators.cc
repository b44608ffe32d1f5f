#include "recipe/template/operators.h"

#include <algorithm>
#include <cmath>

#include "recipe/template/builtins.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe::jinja {
namespace {

std::string_view symbol(Op op) {
  switch (op) {
    case Op::kAdd: return "+";
    case Op::kSubtract: return "-";
    case Op::kMultiply: return "*";
    case Op::kDivide: return "/";
    case Op::kFloorDivide: return "//";
    case Op::kModulo: return "%";
    case Op::kPower: return "**";
    case Op::kConcat: return "~";
    case Op::kEqual: return "==";
    case Op::kNotEqual: return "!=";
    case Op::kLess: return "<";
    case Op::kLessEqual: return "<=";
    case Op::kGreater: return ">";
    case Op::kGreaterEqual: return ">=";
    case Op::kIn: return "in";
    case Op::kNotIn: return "not in";
  }
  return "?";
}

Status unsupported(Op op, const Value& left, const Value& right) {
  return invalid_argument("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op),
                          type_name(left), type_name(right));
}

Status too_big() { return invalid_argument("a number is beyond the range of integers"); }

// Whole numbers -----------------------------------------------------------------------------------

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

StatusOr<Value> power(int64_t base, int64_t exponent, Origin origin) {
  if (exponent < 0) {
    return Value{std::pow(static_cast<double>(base), static_cast<double>(exponent)), origin};
  }
  int64_t out = 1;
  if (base == 0 || base == 1) return make_integer(exponent == 0 ? 1 : base, origin);
  if (base == -1) return make_integer(exponent % 2 == 0 ? 1 : -1, origin);
  for (; exponent > 0; --exponent) {  // overflows after 63 rounds at most
    if (__builtin_mul_overflow(out, base, &out)) return too_big();
  }
  return make_integer(out, origin);
}

StatusOr<Value> whole_arithmetic(Op op, int64_t a, int64_t b, Origin origin) {
  int64_t out = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &out)) return too_big();
      return make_integer(out, origin);
    case Op::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) return too_big();
      return make_integer(out, origin);
    case Op::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) return too_big();
      return make_integer(out, origin);
    case Op::kPower: return power(a, b, origin);
    default: break;
  }
  if (b == 0) return invalid_argument("division by zero");
  if (op == Op::kDivide) {
    return Value{static_cast<double>(a) / static_cast<double>(b), origin};
  }
  if (b == -1) {
    if (op == Op::kModulo) return make_integer(0, origin);
    return a == INT64_MIN ? StatusOr<Value>(too_big()) : make_integer(-a, origin);
  }
  const int64_t quotient = floor_divide(a, b);
  return make_integer(op == Op::kModulo ? a - quotient * b : quotient, origin);
}

StatusOr<Value> real_arithmetic(Op op, double a, double b, Origin origin) {
  switch (op) {
    case Op::kAdd: return Value{a + b, origin};
    case Op::kSubtract: return Value{a - b, origin};
    case Op::kMultiply: return Value{a * b, origin};
    case Op::kPower: return Value{std::pow(a, b), origin};
    default: break;
  }
  if (b == 0) return invalid_argument("float division by zero");
  if (op == Op::kDivide) return Value{a / b, origin};
  if (op == Op::kFloorDivide) return Value{std::floor(a / b), origin};
  const double rest = std::fmod(a, b);
  return Value{rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest, origin};
}

// Text and lists ----------------------------------------------------------------------------------

Value join_text(const OriginText& a, const OriginText& b, Budget& budget) {
  if (!budget.make(static_cast<int64_t>(a.size() + b.size()) + 112)) return make_text(OriginText());
  OriginText out = a;
  out.append(b);
  return make_text(std::move(out));
}

StatusOr<Value> add_sequences(const Value& a, const Value& b, Budget& budget) {
  if (a.is_text() && b.is_text()) return join_text(a.text(), b.text(), budget);
  if (a.is<ListPtr>() && b.is<ListPtr>()) {
    const size_t size = a.items().size() + b.items().size();
    if (!budget.make(static_cast<int64_t>(size * sizeof(Value)))) return make_list({});
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return make_list(std::move(items), a.as<ListPtr>()->tuple);
  }
  if (a.is_text()) {
    return invalid_argument("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  if (a.is<ListPtr>()) {
    return invalid_argument("can only concatenate {} (not \"{}\") to {}", type_name(a),
                            type_name(b), type_name(a));
  }
  return unsupported(Op::kAdd, a, b);
}

StatusOr<Value> repeat(const Value& sequence, int64_t count, Budget& budget) {
  if (sequence.is_text()) {
    const OriginText& text = sequence.text();
    OriginText out;
    for (int64_t i = 0; i < count && budget.make(static_cast<int64_t>(text.size()) + 64); ++i) {
      out.append(text);
    }
    return make_text(std::move(out));
  }
  std::vector<Value> items;
  const auto unit = static_cast<int64_t>(sequence.items().size() * sizeof(Value)) + 64;
  for (int64_t i = 0; i < count && budget.make(unit); ++i) {
    items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  }
  return make_list(std::move(items));
}

bool is_sequence(const Value& value) { return value.is_text() || value.is<ListPtr>(); }

StatusOr<bool> contains(const Value& item, const Value& container, Budget& budget) {
  if (container.is_text()) {
    if (item.is<Undefined>()) return undefined_error(item);
    if (!item.is_text()) {
      return invalid_argument("'in <string>' requires string as left operand, not {}",
                              type_name(item));
    }
    budget.step(static_cast<int64_t>(container.text().size() / 16));
    return container.text().text().find(item.text().text()) != std::string::npos;
  }
  if (container.is<DictPtr>()) {
    return item.is_text() && container.as<DictPtr>()->find(item.text().text()) != nullptr;
  }
  if (container.is<Undefined>()) return false;
  if (!container.is<ListPtr>()) {
    return invalid_argument("argument of type '{}' is not iterable", type_name(container));
  }
  const auto& items = container.items();
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& other) { return equal(item, other, budget); });
}

StatusOr<int> order(Op op, const Value& a, const Value& b) {
  if (a.is<Undefined>()) return undefined_error(a);
  if (b.is<Undefined>()) return undefined_error(b);
  if (a.is_integer() && b.is_integer()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.is_number() && b.is_number()) {
    return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
  }
  if (a.is_text() && b.is_text()) return a.text().text().compare(b.text().text());
  return invalid_argument("'{}' not supported between instances of '{}' and '{}'", symbol(op),
                          type_name(a), type_name(b));
}

}  // namespace

StatusOr<Value> binary(Op op, const Value& left, const Value& right, Budget& budget) {
  if (op == Op::kConcat) {
    OriginText out;
    append_str(out, left, budget);
    append_str(out, right, budget);
    budget.make(112);
    return make_text(std::move(out));
  }
  if (left.is<Undefined>()) return undefined_error(left);
  if (right.is<Undefined>()) return undefined_error(right);
  const Origin origin = mixed(left.origin, right.origin);
  if (left.is_integer() && right.is_integer()) {
    return whole_arithmetic(op, left.integer(), right.integer(), origin);
  }
  if (left.is_number() && right.is_number()) {
    return real_arithmetic(op, left.number(), right.number(), origin);
  }
  if (op == Op::kAdd) return add_sequences(left, right, budget);
  if (op == Op::kMultiply) {
    if (is_sequence(left) && right.is_integer()) return repeat(left, right.integer(), budget);
    if (left.is_integer() && is_sequence(right)) return repeat(right, left.integer(), budget);
  }
  return unsupported(op, left, right);
}

StatusOr<bool> compare(Op op, const Value& left, const Value& right, Budget& budget) {
  switch (op) {
    case Op::kEqual: return equal(left, right, budget);
    case Op::kNotEqual: return !equal(left, right, budget);
    case Op::kIn: return contains(left, right, budget);
    case Op::kNotIn: {
      LS_ASSIGN_OR_RETURN(const bool found, contains(left, right, budget));
      return !found;
    }
    default: break;
  }
  LS_ASSIGN_OR_RETURN(const int sign, order(op, left, right));
  switch (op) {
    case Op::kLess: return sign < 0;
    case Op::kLessEqual: return sign <= 0;
    case Op::kGreater: return sign > 0;
    default: return sign >= 0;
  }
}

StatusOr<Value> negative(const Value& value) {
  if (value.is<Undefined>()) return undefined_error(value);
  if (value.is<double>()) return Value{-value.as<double>(), value.origin};
  if (!value.is_integer()) {
    return invalid_argument("bad operand type for unary -: '{}'", type_name(value));
  }
  if (value.integer() == INT64_MIN) return too_big();
  return make_integer(-value.integer(), value.origin);
}

namespace {

StatusOr<int64_t> bound_of(const Value* value, int64_t otherwise) {
  if (value == nullptr || value->is<None>()) return otherwise;
  if (value->is<Undefined>()) return undefined_error(*value);
  if (!value->is_integer()) {
    return invalid_argument("slice indices must be integers or None or have an __index__ method");
  }
  return value->integer();
}

// Python's slice(start, stop, step).indices(size).
StatusOr<std::vector<size_t>> slice_indexes(int64_t size, const Value* start, const Value* stop,
                                            const Value* step) {
  LS_ASSIGN_OR_RETURN(int64_t by, bound_of(step, 1));
  if (by == 0) return invalid_argument("slice step cannot be zero");
  by = std::clamp<int64_t>(by, -size - 1, size + 1);
  const int64_t low = by < 0 ? -1 : 0;
  const int64_t high = by < 0 ? size - 1 : size;
  const auto clamped = [&](int64_t at) {
    return at < 0 ? std::max(at < -size ? low : at + size, low) : std::min(at, high);
  };
  LS_ASSIGN_OR_RETURN(int64_t from, bound_of(start, by < 0 ? INT64_MAX : 0));
  LS_ASSIGN_OR_RETURN(int64_t to, bound_of(stop, by < 0 ? INT64_MIN : INT64_MAX));
  from = clamped(from);
  to = clamped(to);
  std::vector<size_t> out;
  for (int64_t at = from; by < 0 ? at > to : at < to; at += by) {
    out.push_back(static_cast<size_t>(at));
  }
  return out;
}

StatusOr<Value> slice_text(const OriginText& text, const Value* start, const Value* stop,
                           const Value* step, Budget& budget) {
  if (!budget.make(static_cast<int64_t>(text.size()) * 17 + 112)) return make_text(OriginText());
  const char* const base = text.text().data();
  std::vector<size_t> begins;
  for (size_t at = 0; at < text.size(); at += decode_utf8(base + at, base + text.size()).length) {
    begins.push_back(at);
  }
  begins.push_back(text.size());
  LS_ASSIGN_OR_RETURN(const auto indexes, slice_indexes(static_cast<int64_t>(begins.size()) - 1,
                                                        start, stop, step));
  if (indexes.empty()) return make_text(OriginText());
  if (indexes.size() < 2 || indexes[1] == indexes[0] + 1) {
    return make_text(text.slice(begins[indexes.front()], begins[indexes.back() + 1]));
  }
  OriginText out;
  for (const size_t i : indexes) out.append_slice(text, begins[i], begins[i + 1]);
  return make_text(std::move(out));
}

}  // namespace

StatusOr<Value> slice(const Value& value, const Value* start, const Value* stop, const Value* step,
                      Budget& budget) {
  if (value.is<Undefined>()) return undefined_error(value);
  if (value.is_text()) return slice_text(value.text(), start, stop, step, budget);
  if (!value.is<ListPtr>()) {
    return invalid_argument("'{}' object can't be sliced", type_name(value));
  }
  const auto& items = value.items();
  if (!budget.make(static_cast<int64_t>(items.size() * (sizeof(Value) + 8)))) return make_list({});
  LS_ASSIGN_OR_RETURN(const auto indexes,
                      slice_indexes(static_cast<int64_t>(items.size()), start, stop, step));
  std::vector<Value> out;
  out.reserve(indexes.size());
  for (const size_t i : indexes) out.push_back(items[i]);
  return make_list(std::move(out), value.as<ListPtr>()->tuple);
}

}  // namespace lineshaft::recipe::jinja
