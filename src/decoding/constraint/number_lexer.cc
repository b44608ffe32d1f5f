#include "decoding/constraint/number_lexer.h"

#include <algorithm>
#include <limits>

namespace lineshaft::decoding {
namespace {

using Kind = Expr::Kind;

constexpr size_t kTextMax = 400;   // bytes of one number; a longer one is not let grow
constexpr int kPowerMax = 308;     // of ten: doubles end there
constexpr int kPowerMin = -330;
constexpr int kMultiplesTried = 6;

// Bytes of numbers as small numbers; -1 for others.
int symbol(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  switch (byte) {
    case '-': return 10;
    case '+': return 11;
    case '.': return 12;
    case 'e': return 13;
    case 'E': return 14;
    default: return -1;
  }
}

constexpr int64_t kPowers[] = {1,           10,           100,           1000,
                               10000,       100000,       1000000,       10000000,
                               100000000,   1000000000,   10000000000,   100000000000,
                               1000000000000, 10000000000000, 100000000000000, 1000000000000000,
                               10000000000000000, 100000000000000000, 1000000000000000000};

}  // namespace

NumberLexer::Value NumberLexer::value_of(const Decimal& exact, bool whole_text) {
  Value out{exact, false, 0, exact.exponent, whole_text};
  if (exact.mantissa <= std::numeric_limits<int64_t>::max() / 2 &&
      exact.mantissa >= std::numeric_limits<int64_t>::min() / 2) {
    out.small = true;
    out.mantissa = static_cast<int64_t>(exact.mantissa);
  }
  return out;
}

NumberLexer::Value NumberLexer::value_of_text(const std::string& text) {
  const bool whole = text.find_first_of(".eE") == std::string::npos;
  if (text.size() > 18 || text.find_first_of("eE") != std::string::npos) {
    return value_of(parse_decimal(text), whole);
  }
  Value out;
  out.small = true;
  out.whole_text = whole;
  bool fraction = false;
  for (const char c : text) {
    if (c == '.') fraction = true;
    if (c < '0' || c > '9') continue;
    out.mantissa = out.mantissa * 10 + (c - '0');
    if (fraction) --out.exponent;
  }
  if (text[0] == '-') out.mantissa = -out.mantissa;
  out.exact = {out.mantissa, out.exponent};
  return out;
}

int NumberLexer::compare_values(const Value& a, const Value& b) {
  const int apart = a.exponent - b.exponent;
  if (a.small && b.small && apart >= -18 && apart <= 18) {
    __extension__ using Wide = __int128;
    const Wide ma = Wide{a.mantissa} * (apart > 0 ? kPowers[apart] : 1);
    const Wide mb = Wide{b.mantissa} * (apart < 0 ? kPowers[-apart] : 1);
    return ma < mb ? -1 : ma > mb ? 1 : 0;
  }
  return compare(a.exact, b.exact);
}

int32_t NumberLexer::spec(const std::vector<ExprId>& outputs) {
  const auto [found, is_new] = spec_index_.emplace(outputs, static_cast<int32_t>(specs_.size()));
  if (!is_new) return found->second;
  Spec spec;
  spec.outputs = outputs;
  std::vector<ExprId> leaves;
  pool_.leaves(outputs, leaves);
  const Decimal one{1, 0};
  for (const ExprId leaf : leaves) {
    const Expr& e = pool_.at(leaf);
    if (e.kind == Kind::kWhole) {
      spec.has_whole = true;
      spec.leaves.push_back({leaf, {}});
      continue;
    }
    const Decimal& constant = pool_.decimal(e.a);
    spec.leaves.push_back({leaf, value_of(constant, false)});
    if (e.kind == Kind::kMultiple) {
      spec.has_multiple = true;
      if (compare(constant, one) != 0) spec.only_whole_steps = false;
      const size_t known = spec.steps.size();
      spec.steps.push_back(constant);
      // Common multiples of every group; a handful of steps at most is met in practice.
      for (size_t i = 0; i < known && spec.steps.size() < 16; ++i) {
        spec.steps.push_back(least_common_multiple(spec.steps[i], constant));
      }
    } else {
      spec.bounds.push_back(constant);
    }
  }
  std::sort(spec.bounds.begin(), spec.bounds.end(),
            [](const Decimal& a, const Decimal& b) { return compare(a, b) < 0; });
  if (spec.has_whole) spec.steps.push_back(one);
  specs_.push_back(std::move(spec));
  return found->second;
}

bool NumberLexer::leaf_holds(const Spec& spec, ExprId leaf, const Value& value) const {
  const Expr& e = pool_.at(leaf);
  if (e.kind == Kind::kWhole) return value.whole_text;
  const auto found = std::find_if(spec.leaves.begin(), spec.leaves.end(),
                                  [&](const Leaf& l) { return l.id == leaf; });
  const Value& constant = found->constant;
  if (e.kind == Kind::kLess) return compare_values(value, constant) < 0;
  if (e.kind == Kind::kAtMost) return compare_values(value, constant) <= 0;
  if (value.small && constant.small && value.exponent == 0 && constant.exponent == 0) {
    return value.mantissa % constant.mantissa == 0;
  }
  return is_multiple(value.exact, constant.exact);
}

bool NumberLexer::holds(const Spec& spec, ExprId formula, const Value& value) const {
  return pool_.evaluate(formula, [&](ExprId leaf) { return leaf_holds(spec, leaf, value); });
}

int32_t NumberLexer::outcome_of(const Spec& spec, const Value& value) {
  if (!holds(spec, spec.outputs[0], value)) return kReject;
  std::vector<bool> values;
  for (const ExprId output : spec.outputs) values.push_back(holds(spec, output, value));
  return outcomes_.intern(values);
}

bool NumberLexer::goal_holds(const Spec& spec, const Decimal& value, bool whole_text) const {
  return holds(spec, spec.outputs[0], value_of(value, whole_text));
}

// Some value in [low, high) fulfils the goal. Between two bounds a formula only depends on which
// steps divide the value, so multiples and non-multiples just above each bound stand for all.
bool NumberLexer::possible_between(const Spec& spec, const Decimal& low,
                                   const Decimal& high) const {
  std::vector<Decimal> from{low};
  for (const Decimal& bound : spec.bounds) {
    if (compare(bound, low) > 0 && compare(bound, high) < 0) from.push_back(bound);
  }
  const auto good = [&](const Decimal& value) {
    if (compare(value, low) < 0 || compare(value, high) >= 0) return false;
    const bool integral = is_multiple(value, {1, 0});
    return goal_holds(spec, value, integral) || (integral && goal_holds(spec, value, false));
  };
  for (size_t i = 0; i < from.size(); ++i) {
    if (good(from[i])) return true;
    for (const Decimal& step : spec.steps) {
      Decimal value = ceil_multiple(from[i], step);
      for (int tries = 0; tries < kMultiplesTried; ++tries) {
        if (good(value)) return true;
        value = add(value, step);
      }
    }
    // A value between this bound and the next, closer than any step: 1/1000 of the way and odd.
    const Decimal& end = i + 1 < from.size() ? from[i + 1] : high;
    Decimal gap = add(end, negate(from[i]));
    gap = {gap.mantissa * 137, gap.exponent - 6};
    if (good(add(from[i], gap))) return true;
  }
  return false;
}

// Some number whose text begins with `text` (digits, or digits with a fraction; without '-') and
// that has no exponent.
bool NumberLexer::possible_digits(const Spec& spec, const std::string& text, bool negative) const {
  const Decimal at = parse_decimal(text);
  const size_t dot = text.find('.');
  const auto between = [&](const Decimal& low, const Decimal& high) {
    if (!negative) return possible_between(spec, low, high);
    // (-high, -low]: -low itself first, then what is below it.
    return goal_holds(spec, negate(low), dot == std::string::npos) ||
           goal_holds(spec, negate(low), false) ||
           possible_between(spec, negate(high), negate(low));
  };
  if (dot != std::string::npos) {
    const int digits = static_cast<int>(text.size() - dot - 1);
    return between(at, add(at, {1, -digits}));
  }
  if (text == "0") return between({0, 0}, {1, 0});
  // Longer texts: until the value is beyond all bounds and every step has been met.
  BigInt top = 1;
  for (const Decimal& bound : spec.bounds) {
    const BigInt size = boost::multiprecision::abs(bound.mantissa);
    const BigInt whole = bound.exponent >= 0 ? BigInt(size * power_of_ten(bound.exponent)) : size;
    top = std::max(top, whole);
  }
  BigInt step_top = 1;
  for (const Decimal& step : spec.steps) {
    const BigInt whole =
        step.exponent >= 0 ? BigInt(step.mantissa * power_of_ten(step.exponent)) : step.mantissa;
    step_top = std::max(step_top, whole);
  }
  top *= step_top * 10;
  Decimal low = at;
  Decimal high = add(at, {1, 0});
  for (size_t digits = text.size(); digits <= kTextMax; ++digits) {
    if (between(low, high)) return true;
    if (low.mantissa > top) return false;
    low.mantissa *= 10;
    high.mantissa *= 10;
  }
  return false;
}

// Some exponent that begins with `power` ("" or a sign and digits) makes the value right.
bool NumberLexer::possible_power(const Spec& spec, const std::string& mantissa,
                                 const std::string& power) const {
  const Decimal base = parse_decimal(mantissa);
  const auto good = [&](int exponent) {
    return goal_holds(spec, {base.mantissa, base.exponent + exponent}, false);
  };
  const bool minus = !power.empty() && power[0] == '-';
  const bool sign = minus || (!power.empty() && power[0] == '+');
  const std::string digits = power.substr(sign ? 1 : 0);
  if (!digits.empty()) {
    int value = 0;
    for (const char c : digits) value = value * 10 + (c - '0');
    for (int i = 0, span = 1; i <= 3 - static_cast<int>(digits.size()); ++i, span *= 10) {
      for (int j = 0; j < span; ++j) {
        const int exponent = value * span + j;
        if (exponent <= kPowerMax && good(minus ? -exponent : exponent)) return true;
      }
    }
    return false;
  }
  // Around the size of each bound, small ones and the ends.
  const auto size_of = [](const Decimal& d) {
    const BigInt size = boost::multiprecision::abs(d.mantissa);
    return static_cast<int>(size.str().size()) + d.exponent;
  };
  std::vector<int> tries{0, 1, 2, 3, 4, 6, 9, 12, 20, 100, kPowerMax, -1, -2, -3, -6, -20, -300};
  for (const Decimal& bound : spec.bounds) {
    const int about = size_of(bound) - size_of(base);
    for (int i = -2; i <= 2; ++i) tries.push_back(about + i);
  }
  return std::any_of(tries.begin(), tries.end(), [&](int exponent) {
    if (exponent > kPowerMax || exponent < kPowerMin) return false;
    if (sign && minus != (exponent < 0) && exponent != 0) return false;
    return good(exponent);
  });
}

bool NumberLexer::possible(const State& state) const {
  const Spec& spec = specs_[static_cast<size_t>(state.spec)];
  if (spec.outputs[0] == ExprPool::kFalse) return false;
  if (spec.leaves.empty()) return true;
  const std::string& text = state.text;
  const bool negative = !text.empty() && text[0] == '-';
  const std::string body = text.substr(negative ? 1 : 0);
  const size_t e = body.find_first_of("eE");
  switch (state.phase) {
    case Phase::kStart: {
      const Decimal far{1, kPowerMax};
      return possible_between(spec, negate(far), far);
    }
    case Phase::kMinus:
      return goal_holds(spec, {0, 0}, true) || possible_between(spec, {-1, kPowerMax}, {0, 0});
    case Phase::kZero:
    case Phase::kDigits:
    case Phase::kFraction:
      if (holds(spec, spec.outputs[0], value_of_text(text))) return true;
      return possible_digits(spec, body, negative) || possible_power(spec, text, "");
    case Phase::kDot:
      return possible_digits(spec, body, negative) || possible_power(spec, text, "");
    default: {
      const std::string mantissa = (negative ? "-" : "") + body.substr(0, e);
      return possible_power(spec, mantissa, body.substr(e + 1));
    }
  }
}

// Moves the state on in the grammar of JSON numbers; false when the byte has no place.
bool NumberLexer::advance(State& state, uint8_t byte) const {
  const bool digit = byte >= '0' && byte <= '9';
  const bool e = byte == 'e' || byte == 'E';
  switch (state.phase) {
    case Phase::kStart:
    case Phase::kMinus:
      if (digit) {
        state.phase = byte == '0' ? Phase::kZero : Phase::kDigits;
        return true;
      }
      if (state.phase == Phase::kMinus || byte != '-') return false;
      state.phase = Phase::kMinus;
      return true;
    case Phase::kZero:
    case Phase::kDigits:
      if (digit) return state.phase == Phase::kDigits;
      if (!e && byte != '.') return false;
      state.phase = e ? Phase::kE : Phase::kDot;
      return true;
    case Phase::kDot:
      if (!digit) return false;
      state.phase = Phase::kFraction;
      return true;
    case Phase::kFraction:
      if (e) state.phase = Phase::kE;
      return e || digit;
    case Phase::kE:
      if (byte == '+' || byte == '-') {
        state.phase = Phase::kSign;
        return true;
      }
      [[fallthrough]];
    case Phase::kSign:
      if (digit) state.phase = Phase::kPower;
      return digit;
    case Phase::kPower:
      return digit;
  }
  return false;
}

// What may follow once all digits give the same answers.
bool NumberLexer::decided_allows(const State& state) const {
  const Decided& d = state.decided;
  const bool uniform = d.integral == d.fractional;
  switch (state.phase) {
    case Phase::kDot:
      return d.integral >= 0 || d.fractional >= 0;
    case Phase::kFraction:
      return state.nonzero_fraction ? d.fractional >= 0 : d.integral >= 0 || d.fractional >= 0;
    case Phase::kE:
    case Phase::kSign:
    case Phase::kPower:
      // A negative exponent could go below a bound; of a fraction one can't say what it makes.
      if (state.minus_power && !d.shrinks) return false;
      if (state.power > kPowerMax) return false;
      return d.integral >= 0 && (!state.nonzero_fraction || uniform);
    default:
      return d.whole >= 0 || d.integral >= 0 || d.fractional >= 0;
  }
}

// Drops the text once it says no more than the place in the grammar does.
void NumberLexer::decide(State& state) {
  const Spec& spec = specs_[static_cast<size_t>(state.spec)];
  if (spec.leaves.empty()) {
    const int32_t all = outcome_of(spec, value_of({0, 0}, true));
    state.decided = {true, all, all, all, true};
    state.text.clear();
    return;
  }
  if (!spec.only_whole_steps) return;
  if (state.phase == Phase::kDigits) {
    decide_digits(state, spec);
  } else if (state.phase == Phase::kFraction && !spec.has_multiple && !spec.has_whole) {
    // No bound lies within what more digits can make.
    Decimal low = parse_decimal(state.text);
    const auto dot = state.text.find('.');
    const Decimal span{1, -static_cast<int>(state.text.size() - dot - 1)};
    Decimal high = add(low, state.text[0] == '-' ? negate(span) : span);
    const bool up = compare(low, high) < 0;
    for (const Decimal& bound : spec.bounds) {
      if (compare(bound, up ? low : high) >= 0 && compare(bound, up ? high : low) <= 0) return;
    }
    const int32_t all = outcome_of(spec, value_of(low, false));
    state.decided = {true, kUnset, kUnset, all, false};
    state.nonzero_fraction = true;
    state.text.clear();
  }
}

// Every longer number is further from zero; beyond the last bound on its side all are alike.
void NumberLexer::decide_digits(State& state, const Spec& spec) {
  const bool negative = state.text[0] == '-';
  const Value value = value_of_text(state.text);
  const Decimal zero;
  const bool shrinks =
      !spec.has_multiple && !spec.has_whole &&
      std::all_of(spec.bounds.begin(), spec.bounds.end(), [&](const Decimal& bound) {
        return negative ? compare(bound, zero) >= 0 : compare(bound, zero) <= 0;
      });
  // Only of integers nobody writes a size with a negative exponent; of others it must be kept.
  if (!shrinks && !spec.has_multiple && !spec.has_whole) return;
  for (const Leaf& leaf : spec.leaves) {
    const Kind kind = pool_.at(leaf.id).kind;
    if (kind != Kind::kLess && kind != Kind::kAtMost) continue;
    const int order = compare_values(value, leaf.constant);
    if (negative ? order >= 0 : order <= 0) return;
  }
  const Decimal half{negative ? -5 : 5, -1};
  state.decided.yes = true;
  state.decided.shrinks = shrinks;
  state.decided.whole = outcome_of(spec, value_of(value.exact, true));
  state.decided.integral = outcome_of(spec, value_of(value.exact, false));
  state.decided.fractional = outcome_of(spec, value_of(add(value.exact, half), false));
  state.text.clear();
}

int32_t NumberLexer::intern(State state) {
  const auto next = static_cast<int32_t>(states_.size());
  const auto [found, is_new] = index_.emplace(std::move(state), next);
  if (is_new) {
    states_.push_back(found->first);
    std::array<int32_t, 16> edges;
    edges.fill(kUnset);
    edges_.push_back(edges);
    memory_bytes_ += 2 * sizeof(State) + 200;
  }
  return found->second;
}

int32_t NumberLexer::start(int32_t spec_id) {
  State state;
  state.spec = spec_id;
  if (!possible(state)) return kReject;
  decide(state);
  return intern(std::move(state));
}

int32_t NumberLexer::step(int32_t id, uint8_t byte) {
  const int at = symbol(byte);
  if (at < 0) return kReject;
  const auto slot = static_cast<size_t>(at);
  const int32_t known = edges_[static_cast<size_t>(id)][slot];
  if (known != kUnset) return known;
  State state = states_[static_cast<size_t>(id)];
  int32_t next = kReject;
  if (advance(state, byte)) {
    if (state.decided.yes) {
      if (state.phase == Phase::kFraction && byte != '0') state.nonzero_fraction = true;
      if (state.phase == Phase::kSign) state.minus_power = byte == '-';
      if (state.phase == Phase::kPower) state.power = state.power * 10 + (byte - '0');
      if (decided_allows(state)) next = intern(std::move(state));
    } else if (state.text.size() < kTextMax) {
      state.text += static_cast<char>(byte);
      const size_t e = state.text.find_first_of("eE");
      const bool long_power = e != std::string::npos && state.text.size() - e > 5;
      if (!long_power && possible(state)) {
        decide(state);
        next = intern(std::move(state));
      }
    }
  }
  edges_[static_cast<size_t>(id)][slot] = next;
  return next;
}

int32_t NumberLexer::outcome(int32_t id) {
  const State& state = states_[static_cast<size_t>(id)];
  const bool whole = state.phase == Phase::kZero || state.phase == Phase::kDigits;
  if (!whole && state.phase != Phase::kFraction && state.phase != Phase::kPower) return kReject;
  if (state.decided.yes) {
    const Decided& d = state.decided;
    const int32_t result = whole                    ? d.whole
                           : state.nonzero_fraction ? d.fractional
                                                    : d.integral;
    return result < 0 ? kReject : result;
  }
  return outcome_of(specs_[static_cast<size_t>(state.spec)], value_of_text(state.text));
}

}  // namespace lineshaft::decoding
