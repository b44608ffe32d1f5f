// Methods of text, lists and dicts: those of Python that templates call and that change nothing.
#include <algorithm>

#include "recipe/template/builtins.h"
#include "recipe/template/case.h"
#include "recipe/template/char_kinds.h"

namespace lineshaft::recipe::jinja {
namespace {

using Bound = std::vector<const Value*>;

StatusOr<Bound> text_args(const Args& args, std::initializer_list<std::string_view> names,
                          size_t required) {
  LS_ASSIGN_OR_RETURN(Bound bound, bind_args(args, names));
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] != nullptr) continue;
    return invalid_argument("the argument '{}' is missing", names.begin()[i]);
  }
  return bound;
}

StatusOr<const OriginText*> as_text(const Value* value) {
  if (value == nullptr || value->is<None>()) return nullptr;
  if (value->is<Undefined>()) return undefined_error(*value);
  if (!value->is_text()) return invalid_argument("must be str, not {}", type_name(*value));
  return &value->text();
}

StatusOr<int64_t> as_count(const Value* value, int64_t otherwise) {
  if (value == nullptr) return otherwise;
  if (!value->is_integer()) {
    return invalid_argument("'{}' object cannot be interpreted as an integer", type_name(*value));
  }
  return value->integer();
}

StatusOr<Value> strip(const OriginText& text, const Args& args, bool front, bool back) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"chars"}, 0));
  LS_ASSIGN_OR_RETURN(const OriginText* chars, as_text(bound[0]));
  return make_text(strip_text(text, chars, front, back));
}

// Splits as str.split(separator, count) does; count < 0: everywhere.
std::vector<Value> split_at(const OriginText& text, std::string_view separator, int64_t count,
                            Budget& budget) {
  std::vector<Value> parts;
  size_t begin = 0;
  while (count-- != 0 && budget.make(sizeof(Value) + 112)) {
    const size_t end = text.text().find(separator, begin);
    if (end == std::string::npos) break;
    parts.push_back(make_text(text.slice(begin, end)));
    begin = end + separator.size();
  }
  parts.push_back(make_text(text.slice(begin, text.size())));
  return parts;
}

std::vector<Value> split_at_from_end(const OriginText& text, std::string_view separator,
                                     int64_t count, Budget& budget) {
  std::vector<Value> parts;
  size_t end = text.size();
  while (count-- != 0 && end >= separator.size() && budget.make(sizeof(Value) + 112)) {
    const size_t begin = text.text().rfind(separator, end - separator.size());
    if (begin == std::string::npos) break;
    parts.push_back(make_text(text.slice(begin + separator.size(), end)));
    end = begin;
  }
  parts.push_back(make_text(text.slice(0, end)));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_at_spaces(const OriginText& text, int64_t count, Budget& budget) {
  std::vector<Value> parts;
  const std::string_view all = text.text();
  size_t begin = skip_front(all, is_space);
  while (begin < all.size() && budget.make(sizeof(Value) + 112)) {
    if (count-- == 0) {
      parts.push_back(make_text(text.slice(begin, all.size())));
      return parts;
    }
    const size_t end =
        begin + skip_front(all.substr(begin), [](uint32_t point) { return !is_space(point); });
    parts.push_back(make_text(text.slice(begin, end)));
    begin = end + skip_front(all.substr(end), is_space);
  }
  return parts;
}

StatusOr<Value> split(const OriginText& text, const Args& args, bool from_end, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"sep", "maxsplit"}, 0));
  LS_ASSIGN_OR_RETURN(const OriginText* separator, as_text(bound[0]));
  LS_ASSIGN_OR_RETURN(const int64_t count, as_count(bound[1], -1));
  if (separator == nullptr) {
    if (from_end && count >= 0) return invalid_argument("rsplit needs a separator");
    return make_list(split_at_spaces(text, count, budget));
  }
  if (separator->empty()) return invalid_argument("empty separator");
  return make_list(from_end ? split_at_from_end(text, separator->text(), count, budget)
                            : split_at(text, separator->text(), count, budget));
}

StatusOr<Value> split_lines(const OriginText& text, Budget& budget) {
  std::vector<Value> lines;
  const std::string& all = text.text();
  for (size_t begin = 0; begin < all.size() && budget.make(sizeof(Value) + 112);) {
    const size_t end = std::min(all.find_first_of("\r\n", begin), all.size());
    lines.push_back(make_text(text.slice(begin, end)));
    begin = end + (all.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
  return make_list(std::move(lines));
}

// startswith and endswith, of one text or any of a tuple.
StatusOr<Value> borders(const OriginText& text, const Args& args, bool front) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"prefix"}, 1));
  const std::string_view all = text.text();
  const auto fits = [&](const Value& value) {
    const std::string& wanted = value.text().text();
    return front ? all.starts_with(wanted) : all.ends_with(wanted);
  };
  const Value& wanted = *bound[0];
  if (wanted.is_text()) return make_bool(fits(wanted));
  if (wanted.is<Undefined>()) return undefined_error(wanted);
  if (!wanted.is<ListPtr>()) {
    return invalid_argument("first arg must be str or a tuple of str, not {}", type_name(wanted));
  }
  const auto& items = wanted.items();
  return make_bool(std::any_of(items.begin(), items.end(), [&](const Value& item) {
    return item.is_text() && fits(item);
  }));
}

StatusOr<Value> replace(const OriginText& text, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"old", "new", "count"}, 2));
  LS_ASSIGN_OR_RETURN(const OriginText* from, as_text(bound[0]));
  LS_ASSIGN_OR_RETURN(const OriginText* to, as_text(bound[1]));
  LS_ASSIGN_OR_RETURN(int64_t count, as_count(bound[2], -1));
  if (from == nullptr || to == nullptr) return invalid_argument("must be str, not NoneType");
  if (from->empty()) return invalid_argument("the text to replace is empty");
  OriginText out;
  size_t begin = 0;
  while (count-- != 0 && budget.make(static_cast<int64_t>(to->size()) + 64)) {
    const size_t end = text.text().find(from->text(), begin);
    if (end == std::string::npos) break;
    out.append_slice(text, begin, end);
    out.append(*to);
    begin = end + from->size();
  }
  out.append_slice(text, begin, text.size());
  return make_text(std::move(out));
}

StatusOr<Value> find(const OriginText& text, const Args& args, bool last, bool must) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"sub"}, 1));
  LS_ASSIGN_OR_RETURN(const OriginText* wanted, as_text(bound[0]));
  if (wanted == nullptr) return invalid_argument("must be str, not NoneType");
  const size_t at = last ? text.text().rfind(wanted->text()) : text.text().find(wanted->text());
  if (at == std::string::npos) {
    if (must) return invalid_argument("substring not found");
    return make_integer(-1);
  }
  int64_t points = 0;
  skip_front(std::string_view(text.text()).substr(0, at), [&](uint32_t) { return ++points > 0; });
  return make_integer(points, text.origin());
}

StatusOr<Value> count_text(const OriginText& text, const Args& args) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"sub"}, 1));
  LS_ASSIGN_OR_RETURN(const OriginText* wanted, as_text(bound[0]));
  if (wanted == nullptr || wanted->empty()) {
    return invalid_argument("must be a text that is not empty");
  }
  int64_t count = 0;
  for (size_t at = 0; (at = text.text().find(wanted->text(), at)) != std::string::npos; ++count) {
    at += wanted->size();
  }
  return make_integer(count, text.origin());
}

StatusOr<Value> remove_border(const OriginText& text, const Args& args, bool front) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"prefix"}, 1));
  LS_ASSIGN_OR_RETURN(const OriginText* wanted, as_text(bound[0]));
  if (wanted == nullptr) return invalid_argument("must be str, not NoneType");
  const std::string_view all = text.text();
  const size_t size = wanted->size();
  if (front && all.starts_with(wanted->text())) return make_text(text.slice(size, all.size()));
  if (!front && all.ends_with(wanted->text())) return make_text(text.slice(0, all.size() - size));
  return make_text(text);
}

bool all_ascii(const OriginText& text, bool (*is)(char)) {
  const std::string& all = text.text();
  return !all.empty() && std::all_of(all.begin(), all.end(), is);
}

StatusOr<Value> join_method(const Value& separator, const Args& args, Budget& budget) {
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"iterable"}, 1));
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(*bound[0], budget));
  OriginText out;
  for (size_t i = 0; i < items->items.size() && !budget.spent(); ++i) {
    const Value& item = items->items[i];
    if (!item.is_text()) {
      return invalid_argument("sequence item {}: expected str instance, {} found", i,
                              type_name(item));
    }
    if (i > 0) out.append(separator.text());
    out.append(item.text());
    budget.make(static_cast<int64_t>(separator.text().size() + item.text().size() + 1));
  }
  return make_text(std::move(out));
}

StatusOr<Value> text_search(const OriginText& text, std::string_view name, const Args& args) {
  if (name == "startswith") return borders(text, args, true);
  if (name == "endswith") return borders(text, args, false);
  if (name == "find") return find(text, args, false, false);
  if (name == "rfind") return find(text, args, true, false);
  if (name == "index") return find(text, args, false, true);
  if (name == "count") return count_text(text, args);
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") {
    return make_bool(all_ascii(text, [](char c) { return c >= '0' && c <= '9'; }));
  }
  if (name == "isspace") {
    const std::string_view all = text.text();
    return make_bool(!all.empty() && skip_front(all, is_space) == all.size());
  }
  return make_status(StatusCode::kNotFound, "");
}

StatusOr<Value> text_method(const Value& object, std::string_view name, const Args& args,
                            Budget& budget) {
  const OriginText& text = object.text();
  budget.make(static_cast<int64_t>(text.size()));
  if (name == "strip") return strip(text, args, true, true);
  if (name == "lstrip") return strip(text, args, true, false);
  if (name == "rstrip") return strip(text, args, false, true);
  if (name == "split") return split(text, args, false, budget);
  if (name == "rsplit") return split(text, args, true, budget);
  if (name == "splitlines") return split_lines(text, budget);
  if (name == "replace") return replace(text, args, budget);
  if (name == "removeprefix") return remove_border(text, args, true);
  if (name == "removesuffix") return remove_border(text, args, false);
  if (name == "upper") return make_text(upper_case(text));
  if (name == "lower") return make_text(lower_case(text));
  if (name == "title") return make_text(title_case(text));
  if (name == "capitalize") return make_text(capital_case(text));
  if (name == "join") return join_method(object, args, budget);
  return text_search(text, name, args);
}

StatusOr<Value> dict_method(const DictData& dict, std::string_view name, const Args& args,
                            Budget& budget) {
  if (name == "get") {
    LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"key", "default"}, 1));
    const Value* found = bound[0]->is_text() ? dict.find(bound[0]->text().text()) : nullptr;
    if (found != nullptr) return *found;
    return bound[1] != nullptr ? *bound[1] : make_none();
  }
  if (name != "items" && name != "keys" && name != "values") {
    return make_status(StatusCode::kNotFound, "");
  }
  LS_RETURN_IF_ERROR(bind_args(args, {}).status());
  std::vector<Value> out;
  if (!budget.make(static_cast<int64_t>(dict.entries.size() * 3 * sizeof(Value)))) {
    return make_list({});
  }
  for (const auto& [key, value] : dict.entries) {
    Value text{key, Origin::kScaffolding};
    if (name == "keys") {
      out.push_back(std::move(text));
    } else if (name == "values") {
      out.push_back(value);
    } else {
      out.push_back(make_list({std::move(text), value}, true));
    }
  }
  return make_list(std::move(out));
}

StatusOr<Value> list_method(const Value& list, std::string_view name, const Args& args,
                            Budget& budget) {
  if (name == "append" || name == "extend" || name == "insert" || name == "pop" ||
      name == "remove" || name == "clear" || name == "sort" || name == "reverse") {
    return invalid_argument("lists can't be changed: '{}' is not allowed in templates", name);
  }
  if (name != "index" && name != "count") return make_status(StatusCode::kNotFound, "");
  LS_ASSIGN_OR_RETURN(const Bound bound, text_args(args, {"value"}, 1));
  int64_t count = 0;
  const auto& items = list.items();
  for (size_t i = 0; i < items.size() && !budget.spent(); ++i) {
    if (!equal(items[i], *bound[0], budget)) continue;
    if (name == "index") return make_integer(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") return invalid_argument("the value is not in the list");
  return make_integer(count);
}

}  // namespace

OriginText strip_text(const OriginText& text, const OriginText* chars, bool front, bool back) {
  const auto among = [&](uint32_t point) {
    if (chars == nullptr) return is_space(point);
    bool found = false;
    skip_front(chars->text(), [&](uint32_t wanted) {
      found = found || wanted == point;
      return !found;
    });
    return found;
  };
  const std::string_view all = text.text();
  const size_t begin = front ? skip_front(all, among) : 0;
  const size_t end = back ? begin + skip_back(all.substr(begin), among) : all.size();
  return text.slice(begin, end);
}

StatusOr<Value> call_method(const Value& object, std::string_view name, const Args& args,
                            Budget& budget) {
  if (object.is_text()) return text_method(object, name, args, budget);
  if (object.is<DictPtr>()) return dict_method(*object.as<DictPtr>(), name, args, budget);
  if (object.is<ListPtr>()) return list_method(object, name, args, budget);
  if (object.is<LoopPtr>() && name == "cycle") {
    if (args.positional.empty()) return invalid_argument("no items for cycling given");
    const auto at = static_cast<size_t>(object.as<LoopPtr>()->index0);
    return args.positional[at % args.positional.size()];
  }
  return make_status(StatusCode::kNotFound, "");
}

}  // namespace lineshaft::recipe::jinja
