// The filters, tests and methods that templates call. Pure functions of values; what they make is
// counted in the budget.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "recipe/template/value.h"

namespace lineshaft::recipe::jinja {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of `names`, null for those not given. kInvalidArgument for more than
// these, or one given twice.
StatusOr<std::vector<const Value*>> bind_args(const Args& args,
                                              std::initializer_list<std::string_view> names);

struct FilterEntry {
  std::string_view name;
  StatusOr<Value> (*call)(const Value& input, const Args& args, Budget& budget);
};

struct TestEntry {
  std::string_view name;
  StatusOr<bool> (*call)(const Value& input, const Args& args, Budget& budget);
};

// Null when there is none of that name. Entries live for ever.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);

// object.name(args) for methods of text, lists and dicts; kNotFound when the type has none of that
// name.
StatusOr<Value> call_method(const Value& object, std::string_view name, const Args& args,
                            Budget& budget);

// object.name and object[key] as Jinja has them: where there is nothing, undefined with the reason.
StatusOr<Value> get_member(const Value& object, std::string_view name, Budget& budget);
StatusOr<Value> get_item(const Value& object, const Value& key, Budget& budget);

// The error of using an undefined value.
Status undefined_error(const Value& value);

// The items of anything that Python iterates over: characters of text, keys of a dict. Charged.
StatusOr<ListPtr> iterate(const Value& value, Budget& budget);

// Text methods that filters share; `chars` null: white space.
OriginText strip_text(const OriginText& text, const OriginText* chars, bool front, bool back);

}  // namespace lineshaft::recipe::jinja
