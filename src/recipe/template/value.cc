#include "recipe/template/value.h"

#include <algorithm>
#include <numeric>

namespace lineshaft::recipe::jinja {

const std::vector<Value>& Value::items() const { return as<ListPtr>()->items; }

DictData::DictData(std::vector<std::pair<TextPtr, Value>> pairs) : entries(std::move(pairs)) {
  by_key.resize(entries.size());
  std::iota(by_key.begin(), by_key.end(), 0u);
  const auto key = [&](uint32_t i) -> const std::string& { return entries[i].first->text(); };
  std::stable_sort(by_key.begin(), by_key.end(),
                   [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  bool twice = false;
  for (size_t i = by_key.size(); i-- > 1;) {
    if (key(by_key[i - 1]) != key(by_key[i])) continue;
    entries[by_key[i - 1]].second = std::move(entries[by_key[i]].second);
    entries[by_key[i]].first = nullptr;
    twice = true;
  }
  if (twice) {
    std::erase_if(entries, [](const auto& entry) { return entry.first == nullptr; });
    by_key.resize(entries.size());
    std::iota(by_key.begin(), by_key.end(), 0u);
    std::sort(by_key.begin(), by_key.end(),
              [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  }
  for (const auto& entry : entries) depth = std::max(depth, 1 + depth_of(entry.second));
}

const Value* DictData::find(std::string_view wanted) const {
  const auto it = std::lower_bound(
      by_key.begin(), by_key.end(), wanted,
      [&](uint32_t i, std::string_view key) { return entries[i].first->text() < key; });
  if (it == by_key.end() || entries[*it].first->text() != wanted) return nullptr;
  return &entries[*it].second;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

Value make_text(OriginText text) {
  return {std::make_shared<const OriginText>(std::move(text)), Origin::kScaffolding};
}

Value make_text(std::string text, Origin origin) {
  return make_text(OriginText(std::move(text), origin));
}

Value make_integer(int64_t value, Origin origin) { return {value, origin}; }
Value make_bool(bool value) { return {value, Origin::kScaffolding}; }
Value make_none() { return {None{}, Origin::kScaffolding}; }

Value make_undefined(std::string why) {
  return {Undefined{std::make_shared<const std::string>(std::move(why))}, Origin::kScaffolding};
}

Value make_list(std::vector<Value> items, bool tuple) {
  auto data = std::make_shared<ListData>();
  data->tuple = tuple;
  for (const Value& item : items) data->depth = std::max(data->depth, 1 + depth_of(item));
  data->items = std::move(items);
  return {ListPtr(std::move(data)), Origin::kScaffolding};
}

Value make_dict(std::vector<std::pair<TextPtr, Value>> pairs) {
  return {std::make_shared<const DictData>(std::move(pairs)), Origin::kScaffolding};
}

Value value_from_json(const Json& json, Origin origin) {
  switch (json.type()) {
    case Json::value_t::boolean: return {json.get<bool>(), origin};
    case Json::value_t::number_integer: return {json.get<int64_t>(), origin};
    case Json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value <= INT64_MAX) return {static_cast<int64_t>(value), origin};
      return {static_cast<double>(value), origin};
    }
    case Json::value_t::number_float: return {json.get<double>(), origin};
    case Json::value_t::string: return make_text(json.get<std::string>(), origin);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(value_from_json(item, origin));
      return make_list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<TextPtr, Value>> pairs;
      pairs.reserve(json.size());
      for (const auto& [key, value] : json.items()) {
        pairs.emplace_back(std::make_shared<const OriginText>(key, origin),
                           value_from_json(value, origin));
      }
      return make_dict(std::move(pairs));
    }
    default: return make_none();
  }
}

int depth_of(const Value& value) {
  if (value.is<ListPtr>()) return value.as<ListPtr>()->depth;
  if (value.is<DictPtr>()) return value.as<DictPtr>()->depth;
  if (value.is<LoopPtr>()) return value.as<LoopPtr>()->items->depth + 1;
  return 0;
}

bool truthy(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is<ListPtr>()) return !value.items().empty();
  if (value.is<DictPtr>()) return !value.as<DictPtr>()->entries.empty();
  return true;
}

namespace {

bool equal_lists(const Value& a, const Value& b, Budget& budget) {
  if (a.as<ListPtr>() == b.as<ListPtr>()) return true;
  const auto& x = a.items();
  const auto& y = b.items();
  if (x.size() != y.size() || a.as<ListPtr>()->tuple != b.as<ListPtr>()->tuple) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!equal(x[i], y[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const DictData& a, const DictData& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key->text());
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  if (!budget.step()) return false;
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.data.index() != b.data.index()) return false;
  if (a.is_text()) {
    return budget.step(static_cast<int64_t>(a.text().size() / 64)) &&
           a.text().text() == b.text().text();
  }
  if (a.is<ListPtr>()) return equal_lists(a, b, budget);
  if (a.is<DictPtr>()) return equal_dicts(*a.as<DictPtr>(), *b.as<DictPtr>(), budget);
  if (a.is<Namespace*>()) return a.as<Namespace*>() == b.as<Namespace*>();
  if (a.is<const Macro*>()) return a.as<const Macro*>() == b.as<const Macro*>();
  if (a.is<Function>()) return a.as<Function>() == b.as<Function>();
  if (a.is<LoopPtr>()) return a.as<LoopPtr>() == b.as<LoopPtr>();
  return true;  // none with none, undefined with undefined
}

std::string_view type_name(const Value& value) {
  struct Namer {
    std::string_view operator()(const Undefined&) const { return "Undefined"; }
    std::string_view operator()(const None&) const { return "NoneType"; }
    std::string_view operator()(bool) const { return "bool"; }
    std::string_view operator()(int64_t) const { return "int"; }
    std::string_view operator()(double) const { return "float"; }
    std::string_view operator()(const TextPtr&) const { return "str"; }
    std::string_view operator()(const ListPtr& l) const { return l->tuple ? "tuple" : "list"; }
    std::string_view operator()(const DictPtr&) const { return "dict"; }
    std::string_view operator()(const LoopPtr&) const { return "LoopContext"; }
    std::string_view operator()(Namespace*) const { return "Namespace"; }
    std::string_view operator()(const Macro*) const { return "Macro"; }
    std::string_view operator()(Function) const { return "function"; }
  };
  return std::visit(Namer{}, value.data);
}

std::string object_type(const Value& value) {
  return value.is<None>() ? "None" : fmt::format("{} object", type_name(value));
}

}  // namespace lineshaft::recipe::jinja
