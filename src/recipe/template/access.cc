// Members, items and iteration of values, as Jinja has them.
#include "recipe/template/builtins.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe::jinja {
namespace {

std::string quoted(std::string_view name) { return fmt::format("'{}'", name.substr(0, 80)); }

Value no_member(const Value& object, std::string_view name) {
  return make_undefined(
      fmt::format("'{}' has no attribute {}", object_type(object), quoted(name)));
}

Value loop_member(const LoopData& loop, std::string_view name) {
  const auto length = static_cast<int64_t>(loop.items->items.size());
  if (name == "index") return make_integer(loop.index0 + 1);
  if (name == "index0") return make_integer(loop.index0);
  if (name == "revindex") return make_integer(length - loop.index0);
  if (name == "revindex0") return make_integer(length - loop.index0 - 1);
  if (name == "first") return make_bool(loop.index0 == 0);
  if (name == "last") return make_bool(loop.index0 + 1 == length);
  if (name == "length") return make_integer(length);
  if (name == "depth") return make_integer(1);  // counts recursive loops only, in Jinja too
  if (name == "depth0") return make_integer(0);
  const auto at = static_cast<size_t>(loop.index0);
  if (name == "previtem") {
    return at > 0 ? loop.items->items[at - 1] : make_undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return at + 1 < loop.items->items.size() ? loop.items->items[at + 1]
                                             : make_undefined("there is no next item");
  }
  return make_undefined(fmt::format("'loop' has no attribute {}", quoted(name)));
}

Value list_item(const Value& object, int64_t index) {
  const auto& items = object.items();
  const auto size = static_cast<int64_t>(items.size());
  const int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && at < size) return items[static_cast<size_t>(at)];
  return make_undefined(fmt::format("{} has no element {}", object_type(object), index));
}

Value text_item(const Value& object, int64_t index, Budget& budget) {
  const OriginText& text = object.text();
  budget.step(static_cast<int64_t>(text.size() / 16));
  std::vector<size_t> begins;
  const char* const base = text.text().data();
  for (size_t at = 0; at < text.size();) {
    begins.push_back(at);
    if (index >= 0 && static_cast<int64_t>(begins.size()) > index + 1) break;
    at += decode_utf8(base + at, base + text.size()).length;
  }
  const auto size = static_cast<int64_t>(begins.size());
  const int64_t at = index < 0 ? index + size : index;
  if (at < 0 || at >= size) {
    return make_undefined(fmt::format("{} has no element {}", object_type(object), index));
  }
  const size_t begin = begins[static_cast<size_t>(at)];
  return make_text(
      text.slice(begin, begin + decode_utf8(base + begin, base + text.size()).length));
}

}  // namespace

Status undefined_error(const Value& value) {
  const auto& why = value.as<Undefined>().why;
  return invalid_argument("{}", why == nullptr ? "a value is undefined" : *why);
}

StatusOr<Value> get_member(const Value& object, std::string_view name, Budget& budget) {
  budget.step(4);
  if (object.is<Undefined>()) return undefined_error(object);
  if (object.is<LoopPtr>()) return loop_member(*object.as<LoopPtr>(), name);
  const Value* found = nullptr;
  if (object.is<DictPtr>()) found = object.as<DictPtr>()->find(name);
  if (object.is<Namespace*>()) {
    budget.step(static_cast<int64_t>(object.as<Namespace*>()->members.size() / 8));
    found = object.as<Namespace*>()->find(name);
  }
  return found != nullptr ? *found : no_member(object, name);
}

StatusOr<Value> get_item(const Value& object, const Value& key, Budget& budget) {
  if (object.is<Undefined>()) return undefined_error(object);
  if (key.is<Undefined>()) return undefined_error(key);
  if (key.is_text()) return get_member(object, key.text().text(), budget);
  if (!key.is_integer()) {
    return no_member(object, fmt::format("of type {}", type_name(key)));
  }
  if (object.is<ListPtr>()) return list_item(object, key.integer());
  if (object.is_text()) return text_item(object, key.integer(), budget);
  return make_undefined(fmt::format("{} has no element {}", object_type(object), key.integer()));
}

namespace {

ListPtr characters(const OriginText& text, Budget& budget) {
  std::vector<Value> items;
  const char* const base = text.text().data();
  for (size_t at = 0; at < text.size() && budget.make(sizeof(Value) + 112);) {
    const size_t length = decode_utf8(base + at, base + text.size()).length;
    items.push_back(make_text(text.slice(at, at + length)));
    at += length;
  }
  return make_list(std::move(items)).as<ListPtr>();
}

}  // namespace

StatusOr<ListPtr> iterate(const Value& value, Budget& budget) {
  if (value.is<ListPtr>()) return value.as<ListPtr>();
  if (value.is<Undefined>()) return make_list({}).as<ListPtr>();
  if (value.is_text()) return characters(value.text(), budget);
  if (!value.is<DictPtr>()) {
    return invalid_argument("'{}' object is not iterable", type_name(value));
  }
  const auto& entries = value.as<DictPtr>()->entries;
  std::vector<Value> keys;
  if (budget.make(static_cast<int64_t>(entries.size() * sizeof(Value)))) {
    for (const auto& [key, item] : entries) keys.push_back({key, Origin::kScaffolding});
  }
  return make_list(std::move(keys)).as<ListPtr>();
}

StatusOr<std::vector<const Value*>> bind_args(const Args& args,
                                              std::initializer_list<std::string_view> names) {
  if (args.positional.size() > names.size()) {
    return invalid_argument("takes {} arguments at most, got {}", names.size(),
                            args.positional.size());
  }
  std::vector<const Value*> out(names.size(), nullptr);
  for (size_t i = 0; i < args.positional.size(); ++i) out[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t at = 0;
    while (at < names.size() && names.begin()[at] != name) ++at;
    if (at == names.size()) return invalid_argument("has no argument '{}'", name);
    if (out[at] != nullptr) return invalid_argument("got the argument '{}' twice", name);
    out[at] = &value;
  }
  return out;
}

}  // namespace lineshaft::recipe::jinja
