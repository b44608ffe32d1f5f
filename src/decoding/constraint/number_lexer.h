// NumberLexer: reads a JSON number and finds which formulas its value fulfils, exactly.
//
// A state is the text so far while the value can still be on either side of a bound; once all that
// may follow gives the same answers, it is only the place in the grammar of numbers, so that states
// stay few. A state that can't lead to a value with outputs[0] true is never entered (how far
// exponents are tried is stated in the code). Must not know other types.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decoding/constraint/expr.h"
#include "decoding/constraint/string_lexer.h"

namespace lineshaft::decoding {

class NumberLexer {
 public:
  static constexpr int32_t kReject = -1;

  NumberLexer(const ExprPool& pool, Outcomes& outcomes) : pool_(pool), outcomes_(outcomes) {}

  // A spec for formulas projected to numbers; outputs[0] is the one that must hold.
  int32_t spec(const std::vector<ExprId>& outputs);
  // The state before the first byte.
  int32_t start(int32_t spec);
  // The next state, or kReject.
  int32_t step(int32_t state, uint8_t byte);
  // The outcome of a number that ends here, or kReject when it is not whole or outputs[0] fails.
  int32_t outcome(int32_t state);

  size_t memory_bytes() const { return memory_bytes_; }

 private:
  enum class Phase : uint8_t { kStart, kMinus, kZero, kDigits, kDot, kFraction, kE, kSign, kPower };
  // A value as a small fraction where it fits, for speed.
  struct Value {
    Decimal exact;
    bool small = false;
    int64_t mantissa = 0;
    int exponent = 0;
    bool whole_text = false;  // no fraction and no exponent
  };
  struct Leaf {
    ExprId id;
    Value constant;
  };
  struct Spec {
    std::vector<ExprId> outputs;
    std::vector<Leaf> leaves;
    std::vector<Decimal> bounds;  // of less and at most, ascending
    std::vector<Decimal> steps;   // of multiples: each, and the common one of each group
    bool has_multiple = false;
    bool only_whole_steps = true;  // every step is 1
    bool has_whole = false;
  };
  // Outcomes of all values that may follow, by how they are written.
  struct Decided {
    bool yes = false;
    int32_t whole = kUnset;     // digits only
    int32_t integral = kUnset;  // with a fraction of zeros or an exponent
    int32_t fractional = kUnset;
    bool shrinks = false;       // smaller sizes of the same sign give the same outcomes
    auto operator<=>(const Decided&) const = default;
  };
  struct State {
    int32_t spec = 0;
    Phase phase = Phase::kStart;
    std::string text;  // empty once decided
    Decided decided;
    bool nonzero_fraction = false;  // decided: the fraction has a digit other than 0
    int power = 0;                  // decided: the exponent so far
    bool minus_power = false;
    auto operator<=>(const State&) const = default;
  };
  static constexpr int32_t kUnset = -2;

  static Value value_of(const Decimal& exact, bool whole_text);
  static Value value_of_text(const std::string& text);
  static int compare_values(const Value& a, const Value& b);
  bool leaf_holds(const Spec& spec, ExprId leaf, const Value& value) const;
  bool holds(const Spec& spec, ExprId formula, const Value& value) const;
  int32_t outcome_of(const Spec& spec, const Value& value);
  bool goal_holds(const Spec& spec, const Decimal& value, bool whole_text) const;
  bool possible_between(const Spec& spec, const Decimal& low, const Decimal& high) const;
  bool possible_digits(const Spec& spec, const std::string& text, bool negative) const;
  bool possible_power(const Spec& spec, const std::string& mantissa,
                      const std::string& power) const;
  bool possible(const State& state) const;
  void decide(State& state);
  void decide_digits(State& state, const Spec& spec);
  bool advance(State& state, uint8_t byte) const;
  bool decided_allows(const State& state) const;
  int32_t intern(State state);

  const ExprPool& pool_;
  Outcomes& outcomes_;
  std::vector<Spec> specs_;
  std::map<std::vector<ExprId>, int32_t> spec_index_;
  std::vector<State> states_;
  std::vector<std::array<int32_t, 16>> edges_;
  std::map<State, int32_t> index_;
  size_t memory_bytes_ = 0;
};

}  // namespace lineshaft::decoding
