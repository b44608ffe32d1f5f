// Tests of Jinja 2: what stands behind `is`.
#include <algorithm>
#include <array>

#include "recipe/template/builtins.h"
#include "recipe/template/case.h"
#include "recipe/template/operators.h"

namespace lineshaft::recipe::jinja {
namespace {

StatusOr<const Value*> only_arg(const Args& args) {
  LS_ASSIGN_OR_RETURN(const auto bound, bind_args(args, {"other"}));
  if (bound[0] == nullptr) return invalid_argument("the test needs an argument");
  return bound[0];
}

template <bool (*kIs)(const Value&)>
StatusOr<bool> kind(const Value& input, const Args& args, Budget&) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  return kIs(input);
}

bool is_defined(const Value& v) { return !v.is<Undefined>(); }
bool is_undefined(const Value& v) { return v.is<Undefined>(); }
bool is_none(const Value& v) { return v.is<None>(); }
bool is_boolean(const Value& v) { return v.is<bool>(); }
bool is_true(const Value& v) { return v.is<bool>() && v.as<bool>(); }
bool is_false(const Value& v) { return v.is<bool>() && !v.as<bool>(); }
bool is_integer(const Value& v) { return v.is<int64_t>(); }
bool is_float(const Value& v) { return v.is<double>(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
bool is_mapping(const Value& v) { return v.is<DictPtr>(); }
bool is_sequence(const Value& v) {
  return v.is_text() || v.is<ListPtr>() || v.is<DictPtr>() || v.is<Undefined>();
}
bool is_iterable(const Value& v) { return is_sequence(v) || v.is<LoopPtr>(); }
bool is_callable(const Value& v) { return v.is<Function>() || v.is<const Macro*>(); }
bool is_lower(const Value& v) {
  return v.is_text() && lower_case(v.text()).text() == v.text().text() &&
         upper_case(v.text()).text() != v.text().text();
}
bool is_upper(const Value& v) {
  return v.is_text() && upper_case(v.text()).text() == v.text().text() &&
         lower_case(v.text()).text() != v.text().text();
}

StatusOr<bool> same_as(const Value& input, const Args& args, Budget&) {
  LS_ASSIGN_OR_RETURN(const Value* other, only_arg(args));
  if (input.data.index() != other->data.index()) return false;
  if (input.is<ListPtr>()) return input.as<ListPtr>() == other->as<ListPtr>();
  if (input.is<DictPtr>()) return input.as<DictPtr>() == other->as<DictPtr>();
  if (input.is_text()) return input.as<TextPtr>() == other->as<TextPtr>();
  Budget enough(4, 4);  // the rest are scalars
  return equal(input, *other, enough);
}

template <Op kOp>
StatusOr<bool> compares(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Value* other, only_arg(args));
  return compare(kOp, input, *other, budget);
}

StatusOr<bool> divides(const Value& input, const Args& args, Budget&) {
  LS_ASSIGN_OR_RETURN(const auto bound, bind_args(args, {"num"}));
  if (bound[0] == nullptr || !bound[0]->is_integer() || !input.is_integer() ||
      bound[0]->integer() == 0) {
    return invalid_argument("divisibleby needs integers");
  }
  return bound[0]->integer() == -1 || input.integer() % bound[0]->integer() == 0;
}

template <bool kOdd>
StatusOr<bool> parity(const Value& input, const Args& args, Budget&) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  if (!input.is_integer()) return invalid_argument("{} is neither odd nor even", type_name(input));
  return (input.integer() % 2 != 0) == kOdd;
}

constexpr std::array<TestEntry, 36> kTests = {{
    {"!=", compares<Op::kNotEqual>},
    {"<", compares<Op::kLess>},
    {"<=", compares<Op::kLessEqual>},
    {"==", compares<Op::kEqual>},
    {">", compares<Op::kGreater>},
    {">=", compares<Op::kGreaterEqual>},
    {"boolean", kind<is_boolean>},
    {"callable", kind<is_callable>},
    {"defined", kind<is_defined>},
    {"divisibleby", divides},
    {"eq", compares<Op::kEqual>},
    {"equalto", compares<Op::kEqual>},
    {"even", parity<false>},
    {"false", kind<is_false>},
    {"float", kind<is_float>},
    {"ge", compares<Op::kGreaterEqual>},
    {"greaterthan", compares<Op::kGreater>},
    {"gt", compares<Op::kGreater>},
    {"in", compares<Op::kIn>},
    {"integer", kind<is_integer>},
    {"iterable", kind<is_iterable>},
    {"le", compares<Op::kLessEqual>},
    {"lessthan", compares<Op::kLess>},
    {"lower", kind<is_lower>},
    {"lt", compares<Op::kLess>},
    {"mapping", kind<is_mapping>},
    {"ne", compares<Op::kNotEqual>},
    {"none", kind<is_none>},
    {"number", kind<is_number>},
    {"odd", parity<true>},
    {"sameas", same_as},
    {"sequence", kind<is_sequence>},
    {"string", kind<is_string>},
    {"true", kind<is_true>},
    {"undefined", kind<is_undefined>},
    {"upper", kind<is_upper>},
}};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto it = std::find_if(kTests.begin(), kTests.end(),
                               [&](const TestEntry& entry) { return entry.name == name; });
  return it == kTests.end() ? nullptr : &*it;
}

}  // namespace lineshaft::recipe::jinja
