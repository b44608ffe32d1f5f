// Filters of Jinja 2 that chat templates use, and Hugging Face's tojson.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "recipe/template/builtins.h"
#include "recipe/template/case.h"
#include "recipe/template/char_kinds.h"

namespace lineshaft::recipe::jinja {
namespace {

using Bound = std::vector<const Value*>;

StatusOr<std::string> text_of(const Value& value) {
  if (value.is<Undefined>()) return undefined_error(value);
  if (!value.is_text()) return invalid_argument("expected text, not {}", type_name(value));
  return value.text().text();
}

OriginText str_of(const Value& value, Budget& budget) {
  OriginText out;
  append_str(out, value, budget);
  return out;
}

StatusOr<int64_t> integer_of(const Value* value, int64_t otherwise) {
  if (value == nullptr) return otherwise;
  if (!value->is_integer()) {
    return invalid_argument("expected an integer, not {}", type_name(*value));
  }
  return value->integer();
}

StatusOr<bool> flag_of(const Value* value, bool otherwise) {
  return value == nullptr ? otherwise : truthy(*value);
}

// Item of a member path such as "function.name" or an index.
StatusOr<Value> member_path(const Value& item, const Value& path, Budget& budget) {
  if (!path.is_text()) return get_item(item, path, budget);
  const std::string& all = path.text().text();
  Value at = item;
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find('.', begin), all.size());
    const auto name = std::string_view(all).substr(begin, end - begin);
    LS_ASSIGN_OR_RETURN(at, get_member(at, name, budget));
    begin = end + 1;
  }
  return at;
}

// Text -------------------------------------------------------------------------------------------

StatusOr<Value> trim(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"chars"}));
  if (input.is<Undefined>()) return make_text(OriginText());
  if (!input.is_text()) return invalid_argument("trim of a value that is not text");
  if (bound[0] != nullptr && !bound[0]->is<None>()) {
    LS_RETURN_IF_ERROR(text_of(*bound[0]).status());
  }
  const bool own = bound[0] != nullptr && bound[0]->is_text();
  budget.make(static_cast<int64_t>(input.text().size()));
  return make_text(strip_text(input.text(), own ? &bound[0]->text() : nullptr, true, true));
}

template <OriginText (*kMap)(const OriginText&)>
StatusOr<Value> map_case(const Value& input, const Args& args, Budget& budget) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  return make_text(kMap(str_of(input, budget)));
}

StatusOr<Value> to_string(const Value& input, const Args& args, Budget& budget) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  return make_text(str_of(input, budget));
}

StatusOr<Value> replace(const Value& input, const Args& args, Budget& budget) {
  return call_method(make_text(str_of(input, budget)), "replace", args, budget);
}

StatusOr<Value> indent(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"width", "first", "blank"}));
  OriginText space(std::string(4, ' '), Origin::kScaffolding);
  if (bound[0] != nullptr && bound[0]->is_text()) {
    space = bound[0]->text();
  } else {
    LS_ASSIGN_OR_RETURN(const int64_t width, integer_of(bound[0], 4));
    if (width < 0 || width > 1000) return invalid_argument("indent of {} columns", width);
    space = OriginText(std::string(static_cast<size_t>(width), ' '), Origin::kScaffolding);
  }
  LS_ASSIGN_OR_RETURN(const bool first, flag_of(bound[1], false));
  LS_ASSIGN_OR_RETURN(const bool blank, flag_of(bound[2], false));
  const OriginText text = str_of(input, budget);
  const std::string& all = text.text();
  OriginText out;
  for (size_t begin = 0; begin <= all.size() && budget.make(64);) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    const bool wanted = begin == 0 ? first : (blank || end > begin);
    if (wanted) out.append(space);
    out.append_slice(text, begin, std::min(end + 1, all.size()));
    budget.make(static_cast<int64_t>(space.size()));
    begin = end + 1;
  }
  return make_text(std::move(out));
}

StatusOr<Value> to_json(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound,
                      bind_args(args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  LS_ASSIGN_OR_RETURN(style.ascii, flag_of(bound[0], false));
  if (bound[1] != nullptr && !bound[1]->is<None>()) {
    LS_ASSIGN_OR_RETURN(const int64_t width, integer_of(bound[1], 0));
    if (width > 100) return invalid_argument("tojson with an indent of {}", width);
    style.indent = static_cast<int>(std::max<int64_t>(width, 0));
    style.item_separator = ",";
  }
  if (bound[2] != nullptr && !bound[2]->is<None>()) {
    if (!bound[2]->is<ListPtr>() || bound[2]->items().size() != 2) {
      return invalid_argument("the argument 'separators' of tojson is two texts");
    }
    LS_ASSIGN_OR_RETURN(style.item_separator, text_of(bound[2]->items()[0]));
    LS_ASSIGN_OR_RETURN(style.key_separator, text_of(bound[2]->items()[1]));
  }
  LS_ASSIGN_OR_RETURN(style.sort_keys, flag_of(bound[3], false));
  OriginText out;
  LS_RETURN_IF_ERROR(append_json(out, input, style, budget));
  return make_text(std::move(out));
}

StatusOr<Value> join(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"d", "attribute"}));
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(input, budget));
  const OriginText separator = bound[0] == nullptr ? OriginText() : str_of(*bound[0], budget);
  OriginText out;
  for (size_t i = 0; i < items->items.size() && !budget.spent(); ++i) {
    if (i > 0) out.append(separator);
    budget.make(static_cast<int64_t>(separator.size() + 1));
    if (bound[1] == nullptr) {
      append_str(out, items->items[i], budget);
    } else {
      LS_ASSIGN_OR_RETURN(const Value member, member_path(items->items[i], *bound[1], budget));
      append_str(out, member, budget);
    }
  }
  return make_text(std::move(out));
}

// Numbers ----------------------------------------------------------------------------------------

Origin origin_of(const Value& value) {
  return value.is_text() ? value.text().origin() : value.origin;
}

StatusOr<Value> to_int(const Value& input, const Args& args, Budget&) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"default", "base"}));
  if (bound[1] != nullptr) return invalid_argument("int with a base is not supported");
  const Value otherwise = bound[0] != nullptr ? *bound[0] : make_integer(0);
  if (input.is_integer()) return make_integer(input.integer(), input.origin);
  double number = 0;
  if (input.is<double>()) number = input.as<double>();
  if (input.is_text()) {
    const OriginText trimmed = strip_text(input.text(), nullptr, true, true);
    const std::string& text = trimmed.text();
    const bool plus = text.starts_with("+");
    const char* const end = text.data() + text.size();
    int64_t whole = 0;
    const auto exact = std::from_chars(text.data() + plus, end, whole);
    if (exact.ec == std::errc() && exact.ptr == end) return make_integer(whole, origin_of(input));
    const auto real = std::from_chars(text.data() + plus, end, number);
    if (text.empty() || real.ec != std::errc() || real.ptr != end) return otherwise;
  } else if (!input.is<double>()) {
    return otherwise;
  }
  if (!(std::abs(number) < 9e18)) return otherwise;
  return make_integer(static_cast<int64_t>(number), origin_of(input));
}

StatusOr<Value> to_float(const Value& input, const Args& args, Budget&) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"default"}));
  const Value otherwise = bound[0] != nullptr ? *bound[0] : Value{0.0, Origin::kScaffolding};
  if (input.is_number()) return Value{input.number(), input.origin};
  if (!input.is_text()) return otherwise;
  const OriginText trimmed = strip_text(input.text(), nullptr, true, true);
  const std::string& text = trimmed.text();
  const bool plus = text.starts_with("+");
  double number = 0;
  const auto real = std::from_chars(text.data() + plus, text.data() + text.size(), number);
  if (real.ec != std::errc() || real.ptr != text.data() + text.size()) return otherwise;
  return Value{number, origin_of(input)};
}

StatusOr<Value> absolute(const Value& input, const Args& args, Budget&) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  if (input.is<double>()) return Value{std::abs(input.as<double>()), input.origin};
  if (!input.is_integer() || input.integer() == INT64_MIN) {
    return invalid_argument("bad operand type for abs(): '{}'", type_name(input));
  }
  return make_integer(std::abs(input.integer()), input.origin);
}

StatusOr<Value> round_filter(const Value& input, const Args& args, Budget&) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"precision", "method"}));
  LS_ASSIGN_OR_RETURN(const int64_t precision, integer_of(bound[0], 0));
  if (!input.is_number() || precision < 0 || precision > 15) {
    return invalid_argument("round of {} to {} digits", type_name(input), precision);
  }
  if (input.is_integer()) return make_integer(input.integer(), input.origin);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const std::string method =
      bound[1] != nullptr && bound[1]->is_text() ? bound[1]->text().text() : "common";
  const double scaled = input.number() * scale;
  if (method == "ceil") return Value{std::ceil(scaled) / scale, input.origin};
  if (method == "floor") return Value{std::floor(scaled) / scale, input.origin};
  return Value{std::nearbyint(scaled) / scale, input.origin};
}

// Any value --------------------------------------------------------------------------------------

StatusOr<Value> same(const Value& input, const Args& args, Budget&) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  return input;
}

StatusOr<Value> default_filter(const Value& input, const Args& args, Budget&) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"default_value", "boolean"}));
  LS_ASSIGN_OR_RETURN(const bool boolean, flag_of(bound[1], false));
  if (!input.is<Undefined>() && (!boolean || truthy(input))) return input;
  return bound[0] != nullptr ? *bound[0] : make_text(OriginText());
}

StatusOr<Value> length(const Value& input, const Args& args, Budget& budget) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  if (input.is<Undefined>()) return make_integer(0);
  if (input.is_text()) {
    const std::string& text = input.text().text();
    budget.step(static_cast<int64_t>(text.size() / 16));
    int64_t points = 0;
    skip_front(text, [&](uint32_t) { return ++points > 0; });
    return make_integer(points, Origin::kUser);
  }
  if (input.is<ListPtr>()) {
    return make_integer(static_cast<int64_t>(input.items().size()), Origin::kUser);
  }
  if (input.is<DictPtr>()) {
    return make_integer(static_cast<int64_t>(input.as<DictPtr>()->entries.size()), Origin::kUser);
  }
  return invalid_argument("object of type '{}' has no len()", type_name(input));
}

// Lists ------------------------------------------------------------------------------------------

// The items as an own, changeable copy.
StatusOr<std::vector<Value>> copy_items(const Value& input, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(input, budget));
  if (!budget.make(static_cast<int64_t>(items->items.size() * sizeof(Value)))) {
    return std::vector<Value>();
  }
  return items->items;
}

StatusOr<Value> to_list(const Value& input, const Args& args, Budget& budget) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  LS_ASSIGN_OR_RETURN(std::vector<Value> items, copy_items(input, budget));
  return make_list(std::move(items));
}

StatusOr<Value> items_filter(const Value& input, const Args& args, Budget& budget) {
  if (input.is<Undefined>()) return make_list({});
  if (!input.is<DictPtr>()) return invalid_argument("Can only get item pairs from a mapping.");
  return call_method(input, "items", args, budget);
}

template <bool kLast>
StatusOr<Value> end_item(const Value& input, const Args& args, Budget& budget) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(input, budget));
  if (items->items.empty()) return make_undefined("No item, the sequence was empty.");
  return kLast ? items->items.back() : items->items.front();
}

StatusOr<Value> reverse(const Value& input, const Args& args, Budget& budget) {
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  LS_ASSIGN_OR_RETURN(std::vector<Value> items, copy_items(input, budget));
  std::reverse(items.begin(), items.end());
  if (!input.is_text()) return make_list(std::move(items));
  OriginText out;
  for (const Value& item : items) out.append(item.text());
  return make_text(std::move(out));
}

// The part of `args` that belongs to the filter or test named by their first.
StatusOr<Args> inner_args(const Args& args, size_t used) {
  if (args.positional.size() < used) return invalid_argument("an argument is missing");
  Args inner;
  inner.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(used),
                          args.positional.end());
  inner.named = args.named;
  return inner;
}

StatusOr<Value> map_members(const std::vector<Value>& items, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"attribute", "default"}));
  std::vector<Value> out;
  for (const Value& item : items) {
    if (!budget.make(sizeof(Value))) break;
    LS_ASSIGN_OR_RETURN(Value member, member_path(item, *bound[0], budget));
    if (member.is<Undefined>() && bound[1] != nullptr) member = *bound[1];
    out.push_back(std::move(member));
  }
  return make_list(std::move(out));
}

StatusOr<Value> map_filter(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(input, budget));
  if (args.positional.empty()) {
    if (args.named.empty()) return invalid_argument("map needs a filter or an attribute");
    return map_members(items->items, args, budget);
  }
  LS_ASSIGN_OR_RETURN(const std::string name, text_of(args.positional[0]));
  LS_ASSIGN_OR_RETURN(const Args inner, inner_args(args, 1));
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr || name == "map") return invalid_argument("No filter named '{}'.", name);
  std::vector<Value> out;
  for (const Value& item : items->items) {
    if (!budget.make(sizeof(Value))) break;
    LS_ASSIGN_OR_RETURN(Value mapped, filter->call(item, inner, budget));
    out.push_back(std::move(mapped));
  }
  return make_list(std::move(out));
}

template <bool kMember, bool kWanted>
StatusOr<Value> select_filter(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(input, budget));
  constexpr size_t kTestAt = kMember ? 1 : 0;
  if (args.positional.size() < kTestAt) return invalid_argument("an argument is missing");
  const TestEntry* test = nullptr;
  Args inner;
  if (args.positional.size() > kTestAt) {
    LS_ASSIGN_OR_RETURN(const std::string name, text_of(args.positional[kTestAt]));
    test = find_test(name);
    if (test == nullptr) return invalid_argument("No test named '{}'.", name);
    LS_ASSIGN_OR_RETURN(inner, inner_args(args, kTestAt + 1));
  }
  std::vector<Value> out;
  for (const Value& item : items->items) {
    if (!budget.make(sizeof(Value))) break;
    Value subject = item;
    if (kMember) {
      LS_ASSIGN_OR_RETURN(subject, member_path(item, args.positional[0], budget));
    }
    bool chosen = truthy(subject);
    if (test != nullptr) {
      LS_ASSIGN_OR_RETURN(chosen, test->call(subject, inner, budget));
    }
    if (chosen == kWanted) out.push_back(item);
  }
  return make_list(std::move(out));
}

// Order ------------------------------------------------------------------------------------------

struct Keyed {
  Value key;
  Value item;
};

// Numbers before texts; other keys don't compare.
int rank_of(const Value& key) { return key.is_number() ? 0 : key.is_text() ? 1 : 2; }

bool key_less(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
  if (a.is_number()) return a.number() < b.number();
  return a.is_text() && a.text().text() < b.text().text();
}

// Sorts stably by key; small letters count as capitals unless `exact`.
Status sort_keyed(std::vector<Keyed>& items, bool exact, bool descending, Budget& budget) {
  for (Keyed& item : items) {
    const int rank = rank_of(item.key);
    if (rank == 2 || rank != rank_of(items.front().key)) {
      return invalid_argument("'<' not supported between instances of '{}' and '{}'",
                              type_name(item.key), type_name(items.front().key));
    }
    if (item.key.is_text() && !exact) {
      budget.make(static_cast<int64_t>(item.key.text().size()));
      item.key = make_text(lower_case(item.key.text()));
    }
  }
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return descending ? key_less(b.key, a.key, budget) : key_less(a.key, b.key, budget);
  });
  return ok_status();
}

StatusOr<std::vector<Keyed>> keyed_items(const Value& input, const Value* attribute,
                                         Budget& budget) {
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(input, budget));
  std::vector<Keyed> out;
  for (const Value& item : items->items) {
    if (!budget.make(sizeof(Keyed))) break;
    Keyed keyed{item, item};
    if (attribute != nullptr && !attribute->is<None>()) {
      LS_ASSIGN_OR_RETURN(keyed.key, member_path(item, *attribute, budget));
    }
    out.push_back(std::move(keyed));
  }
  return out;
}

Value unkeyed(std::vector<Keyed> items) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (Keyed& item : items) out.push_back(std::move(item.item));
  return make_list(std::move(out));
}

StatusOr<Value> sort(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound,
                      bind_args(args, {"reverse", "case_sensitive", "attribute"}));
  LS_ASSIGN_OR_RETURN(const bool descending, flag_of(bound[0], false));
  LS_ASSIGN_OR_RETURN(const bool exact, flag_of(bound[1], false));
  LS_ASSIGN_OR_RETURN(std::vector<Keyed> items, keyed_items(input, bound[2], budget));
  LS_RETURN_IF_ERROR(sort_keyed(items, exact, descending, budget));
  return unkeyed(std::move(items));
}

StatusOr<Value> sort_dict(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"case_sensitive", "by", "reverse"}));
  LS_ASSIGN_OR_RETURN(const bool exact, flag_of(bound[0], false));
  LS_ASSIGN_OR_RETURN(const bool descending, flag_of(bound[2], false));
  const bool by_value =
      bound[1] != nullptr && bound[1]->is_text() && bound[1]->text().text() == "value";
  LS_ASSIGN_OR_RETURN(const Value pairs, items_filter(input, {}, budget));
  const Value place = make_integer(by_value ? 1 : 0);
  LS_ASSIGN_OR_RETURN(std::vector<Keyed> items, keyed_items(pairs, &place, budget));
  LS_RETURN_IF_ERROR(sort_keyed(items, exact, descending, budget));
  return unkeyed(std::move(items));
}

template <bool kMost>
StatusOr<Value> extreme(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"case_sensitive", "attribute"}));
  LS_ASSIGN_OR_RETURN(const bool exact, flag_of(bound[0], false));
  LS_ASSIGN_OR_RETURN(std::vector<Keyed> items, keyed_items(input, bound[1], budget));
  if (items.empty()) return make_undefined("No aggregated item, sequence was empty.");
  LS_RETURN_IF_ERROR(sort_keyed(items, exact, kMost, budget));
  return items.front().item;
}

StatusOr<Value> unique(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"case_sensitive", "attribute"}));
  LS_ASSIGN_OR_RETURN(const bool exact, flag_of(bound[0], false));
  LS_ASSIGN_OR_RETURN(std::vector<Keyed> items, keyed_items(input, bound[1], budget));
  std::vector<Keyed> kept;
  for (Keyed& item : items) {
    if (item.key.is_text() && !exact) item.key = make_text(lower_case(item.key.text()));
    const bool known = std::any_of(kept.begin(), kept.end(), [&](const Keyed& other) {
      return equal(other.key, item.key, budget);
    });
    if (!known) kept.push_back(std::move(item));
    if (budget.spent()) break;
  }
  return unkeyed(std::move(kept));
}

StatusOr<Value> sum(const Value& input, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, bind_args(args, {"attribute", "start"}));
  LS_ASSIGN_OR_RETURN(const std::vector<Keyed> items, keyed_items(input, bound[0], budget));
  LS_ASSIGN_OR_RETURN(int64_t whole, integer_of(bound[1], 0));
  double real = 0;
  bool is_real = false;
  for (const Keyed& item : items) {
    if (!item.key.is_number()) return invalid_argument("sum of {}", type_name(item.key));
    if (item.key.is<double>()) {
      is_real = true;
      real += item.key.as<double>();
    } else if (__builtin_add_overflow(whole, item.key.integer(), &whole)) {
      return invalid_argument("sum is beyond the range of integers");
    }
  }
  if (is_real) return Value{real + static_cast<double>(whole), Origin::kUser};
  return make_integer(whole, Origin::kUser);
}

constexpr std::array<FilterEntry, 35> kFilters = {{
    {"abs", absolute},
    {"capitalize", map_case<capital_case>},
    {"count", length},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", sort_dict},
    {"first", end_item<false>},
    {"float", to_float},
    {"indent", indent},
    {"int", to_int},
    {"items", items_filter},
    {"join", join},
    {"last", end_item<true>},
    {"length", length},
    {"list", to_list},
    {"lower", map_case<lower_case>},
    {"map", map_filter},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select_filter<false, false>},
    {"rejectattr", select_filter<true, false>},
    {"replace", replace},
    {"reverse", reverse},
    {"round", round_filter},
    {"safe", same},
    {"select", select_filter<false, true>},
    {"selectattr", select_filter<true, true>},
    {"sort", sort},
    {"string", to_string},
    {"sum", sum},
    {"title", map_case<title_case>},
    {"tojson", to_json},
    {"trim", trim},
    {"unique", unique},
    {"upper", map_case<upper_case>},
}};

}  // namespace

const FilterEntry* find_filter(std::string_view name) {
  const auto it = std::find_if(kFilters.begin(), kFilters.end(),
                               [&](const FilterEntry& entry) { return entry.name == name; });
  return it == kFilters.end() ? nullptr : &*it;
}

}  // namespace lineshaft::recipe::jinja
