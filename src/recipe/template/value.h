// Value: what an expression of a template is. Immutable but for namespaces, so that there are no
// cycles; text and scalars carry their origin. Knows no syntax.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "recipe/template/budget.h"
#include "recipe/template/origin_text.h"

namespace lineshaft::recipe::jinja {

struct Value;
struct ListData;
struct DictData;
struct LoopData;
struct Namespace;
struct Macro;

// A name or member that does not exist; `why` is the sentence for those who use it all the same.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {};

enum class Function : uint8_t { kRange, kNamespace, kDict, kRaiseException, kStrftimeNow };

using TextPtr = std::shared_ptr<const OriginText>;
using ListPtr = std::shared_ptr<const ListData>;
using DictPtr = std::shared_ptr<const DictData>;
using LoopPtr = std::shared_ptr<const LoopData>;

struct Value {
  // Namespaces and macros belong to the rendering and the template, which outlive every value.
  using Data = std::variant<Undefined, None, bool, int64_t, double, TextPtr, ListPtr, DictPtr,
                            LoopPtr, Namespace*, const Macro*, Function>;
  Data data;
  Origin origin = Origin::kScaffolding;  // of a bool or number; text has its own

  template <typename T>
  bool is() const { return std::holds_alternative<T>(data); }
  template <typename T>
  const T& as() const { return *std::get_if<T>(&data); }

  bool is_text() const { return is<TextPtr>(); }
  const OriginText& text() const { return *as<TextPtr>(); }
  const std::vector<Value>& items() const;
  // Bool or number that is not a float, as an integer; asks is_integer() first.
  bool is_integer() const { return is<bool>() || is<int64_t>(); }
  int64_t integer() const { return is<bool>() ? as<bool>() : as<int64_t>(); }
  bool is_number() const { return is_integer() || is<double>(); }
  double number() const { return is<double>() ? as<double>() : static_cast<double>(integer()); }
};

struct ListData {
  std::vector<Value> items;
  bool tuple = false;  // differs in how it prints only
  int depth = 1;       // of lists and dicts inside each other
};

struct DictData {
  explicit DictData(std::vector<std::pair<TextPtr, Value>> pairs);
  // Null when there is none. Of equal keys the last counts.
  const Value* find(std::string_view key) const;

  std::vector<std::pair<TextPtr, Value>> entries;  // keys differ; in the order of first mention
  std::vector<uint32_t> by_key;                    // indexes into entries, sorted by key
  int depth = 1;
};

// The variable `loop` at one item.
struct LoopData {
  ListPtr items;
  int64_t index0 = 0;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> members;
  const Value* find(std::string_view name) const;
};

Value make_text(OriginText text);
Value make_text(std::string text, Origin origin);
Value make_integer(int64_t value, Origin origin = Origin::kScaffolding);
Value make_bool(bool value);
Value make_none();
Value make_undefined(std::string why);
Value make_list(std::vector<Value> items, bool tuple = false);
Value make_dict(std::vector<std::pair<TextPtr, Value>> pairs);

// Every string, number and key of the document as `origin` has it. Recurses as deep as it nests.
Value value_from_json(const Json& json, Origin origin);

// How deep lists and dicts stand in each other; 0 for anything else.
int depth_of(const Value& value);

// As Python sees it: "" and empty lists are false, undefined too.
bool truthy(const Value& value);

// Python's ==. Stops with `false` when the budget is spent.
bool equal(const Value& a, const Value& b, Budget& budget);

// "str object", as Jinja's messages name types; type_name gives "str".
std::string object_type(const Value& value);
std::string_view type_name(const Value& value);

// Appends str(value) or repr(value) of Python. Stops early when the budget is spent.
void append_str(OriginText& out, const Value& value, Budget& budget);
void append_repr(OriginText& out, const Value& value, Budget& budget);

struct JsonStyle {
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  int indent = -1;          // -1: all in one line
  bool ascii = false;       // escape what is not ASCII
  bool sort_keys = false;
};

// Appends json.dumps(value) of Python. kInvalidArgument for what JSON has no form for.
Status append_json(OriginText& out, const Value& value, const JsonStyle& style, Budget& budget);

// repr() of a Python float: the shortest decimal that reads back, with a point or an exponent.
std::string python_float(double value);

}  // namespace lineshaft::recipe::jinja
