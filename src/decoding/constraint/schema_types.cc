// The keywords of JSON Schema that speak of one type.
#include <algorithm>

#include "decoding/constraint/formats.h"
#include "decoding/constraint/regex.h"
#include "decoding/constraint/schema_compiler.h"

namespace lineshaft::decoding {
namespace {

constexpr int64_t kUniqueItemsMax = 256;
constexpr int64_t kHostnameMax = 253;

}  // namespace

ExprId SchemaCompiler::automaton(std::shared_ptr<const Nfa> nfa) {
  const auto [found, is_new] =
      pattern_index_.emplace(nfa.get(), static_cast<int32_t>(patterns_.size()));
  if (is_new) {
    pattern_nodes_ += nfa->nodes.size();
    patterns_.push_back(std::move(nfa));
  }
  return pool_.pattern(found->second);
}

ExprId SchemaCompiler::regex(const Site& site, const std::string& keyword,
                             const std::string& text) {
  if (const auto known = regexes_.find(text); known != regexes_.end()) return known->second;
  const auto parsed = parse_regex(text);
  if (!parsed.ok()) return fail(site, keyword, std::string(message_of(parsed.status())));
  std::vector<ExprId> parts{automaton(parsed->body)};
  for (const auto& nfa : parsed->also) parts.push_back(automaton(nfa));
  for (const auto& nfa : parsed->never) parts.push_back(pool_.make_not(automaton(nfa)));
  if (pattern_nodes_ > limits_.pattern_nodes_max) {
    return fail(site, keyword, "the patterns together need more states than the budget allows");
  }
  const ExprId formula = pool_.make_and(std::move(parts));
  regexes_.emplace(text, formula);
  return formula;
}

ExprId SchemaCompiler::format_keyword(const Site& site, const std::string& name) {
  const Format format = find_format(name);
  if (format.support == FormatSupport::kRefused) {
    return fail(site, "format", "can't be enforced: " + name);
  }
  if (format.support == FormatSupport::kUnknown) {
    warnings_.push_back("#" + site.pointer + ": format '" + name + "' is unknown and not enforced");
    return ExprPool::kTrue;
  }
  const ExprId whole = automaton(format.nfa);
  if (name != "hostname") return whole;
  return pool_.make_and({whole, pool_.make_not(pool_.length_at_least(kHostnameMax + 1))});
}

ExprId SchemaCompiler::string_keywords(const Site& site) {
  std::vector<ExprId> parts;
  int64_t n = 0;
  if (count(site, "minLength", &n)) parts.push_back(pool_.length_at_least(n));
  if (count(site, "maxLength", &n)) {
    parts.push_back(pool_.make_not(pool_.length_at_least(n + 1)));
  }
  for (const char* keyword : {"pattern", "format"}) {
    const Json* value = find(site, keyword);
    if (value == nullptr) continue;
    if (!value->is_string()) return fail(site, keyword, "must be a string");
    const auto& text = value->get_ref<const std::string&>();
    parts.push_back(keyword[0] == 'p' ? regex(site, keyword, text) : format_keyword(site, text));
  }
  return only(JsonType::kString, pool_.make_and(std::move(parts)));
}

bool SchemaCompiler::decimal(const Site& site, const char* keyword, const Json& value,
                             Decimal* out) {
  if (!value.is_number()) {
    fail(site, keyword, "must be a number");
    return false;
  }
  *out = parse_decimal(write_json(value));
  return true;
}

ExprId SchemaCompiler::number_keywords(const Site& site) {
  std::vector<ExprId> parts;
  const auto exclusive = [&](const char* keyword) {
    const Json* value = find(site, keyword);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  };
  for (const char* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    const Json* value = find(site, keyword);
    if (value == nullptr || value->is_boolean()) continue;  // draft 4: a flag of the other
    Decimal bound;
    if (!decimal(site, keyword, *value, &bound)) return ExprPool::kTrue;
    const bool lower = std::string_view(keyword).ends_with("inimum");
    const bool open = keyword[0] == 'e' ||
                      exclusive(lower ? "exclusiveMinimum" : "exclusiveMaximum");
    parts.push_back(lower ? pool_.make_not(open ? pool_.at_most(bound) : pool_.less(bound))
                          : open ? pool_.less(bound) : pool_.at_most(bound));
  }
  if (const Json* value = find(site, "multipleOf"); value != nullptr) {
    Decimal step;
    if (!decimal(site, "multipleOf", *value, &step)) return ExprPool::kTrue;
    if (step.mantissa <= 0) return fail(site, "multipleOf", "must be greater than 0");
    parts.push_back(pool_.multiple(step));
  }
  return only(JsonType::kNumber, pool_.make_and(std::move(parts)));
}

ExprId SchemaCompiler::required_list(const Site& site, const std::string& keyword,
                                     const Json& names) {
  if (!names.is_array()) return fail(site, keyword, "must be an array of strings");
  std::vector<ExprId> parts;
  for (const Json& name : names) {
    if (!name.is_string()) return fail(site, keyword, "must be an array of strings");
    parts.push_back(pool_.members(1, pool_.is(name.get<std::string>()), ExprPool::kTrue));
  }
  return pool_.make_and(std::move(parts));
}

// The keys that properties and patternProperties speak of.
ExprId SchemaCompiler::keys_of(const Site& site) {
  std::vector<ExprId> keys;
  for (const char* keyword : {"properties", "patternProperties"}) {
    const Json* list = find(site, keyword);
    if (list == nullptr || !list->is_object()) continue;
    for (const auto& [key, schema] : list->items()) {
      keys.push_back(keyword[1] == 'r' ? pool_.is(key) : regex(site, keyword, key));
    }
  }
  return pool_.make_or(std::move(keys));
}

ExprId SchemaCompiler::member_keywords(const Site& site) {
  std::vector<ExprId> parts;
  const auto all = [&](ExprId key, ExprId value) {
    parts.push_back(pool_.make_not(pool_.members(1, key, pool_.make_not(value))));
  };
  for (const char* keyword : {"properties", "patternProperties"}) {
    const Json* list = find(site, keyword);
    if (list == nullptr) continue;
    if (!list->is_object()) return fail(site, keyword, "must be an object of schemas");
    for (const auto& [key, schema] : list->items()) {
      const bool plain = keyword[1] == 'r';
      all(plain ? pool_.is(key) : regex(site, keyword, key), compile(child(site, keyword, key)));
    }
  }
  if (find(site, "additionalProperties") != nullptr) {
    all(pool_.make_not(keys_of(site)), compile(child(site, "additionalProperties")));
  }
  if (find(site, "propertyNames") != nullptr) {
    all(pool_.make_not(compile(child(site, "propertyNames"))), ExprPool::kFalse);
  }
  return pool_.make_and(std::move(parts));
}

ExprId SchemaCompiler::dependency_keywords(const Site& site) {
  std::vector<ExprId> parts;
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* list = find(site, keyword);
    if (list == nullptr) continue;
    if (!list->is_object()) return fail(site, keyword, "must be an object");
    if (std::string_view(keyword) == "dependencies" && draft_ > 7 && !list->empty()) {
      return fail(site, keyword,
                  "is no keyword of this draft: use dependentRequired or dependentSchemas, or "
                  "name draft-07 in $schema");
    }
    for (const auto& [key, value] : list->items()) {
      const ExprId has = pool_.members(1, pool_.is(key), ExprPool::kTrue);
      ExprId needed = ExprPool::kTrue;
      if (value.is_array()) {
        needed = required_list(site, keyword, value);
      } else if (value.is_string() && draft_ == 4) {
        needed = required_list(site, keyword, Json::array({value}));
      } else {
        needed = compile(child(site, keyword, key));
      }
      parts.push_back(pool_.make_or({pool_.make_not(has), needed}));
    }
  }
  return pool_.make_and(std::move(parts));
}

ExprId SchemaCompiler::object_keywords(const Site& site) {
  std::vector<ExprId> parts{member_keywords(site), dependency_keywords(site)};
  if (const Json* names = find(site, "required"); names != nullptr) {
    parts.push_back(required_list(site, "required", *names));
  }
  int64_t n = 0;
  if (count(site, "minProperties", &n)) {
    parts.push_back(pool_.members(n, ExprPool::kTrue, ExprPool::kTrue));
  }
  if (count(site, "maxProperties", &n)) {
    parts.push_back(pool_.make_not(pool_.members(n + 1, ExprPool::kTrue, ExprPool::kTrue)));
  }
  return only(JsonType::kObject, pool_.make_and(std::move(parts)));
}

// prefix: how many items have a schema of their own; all: the others have one too.
ExprId SchemaCompiler::item_keywords(const Site& site, int64_t* prefix, bool* all) {
  std::vector<ExprId> parts;
  const Json* items = find(site, "items");
  const bool old_tuple = items != nullptr && items->is_array();
  const char* tuple = old_tuple ? "items" : "prefixItems";
  const char* rest = old_tuple ? "additionalItems" : "items";
  if (const Json* list = find(site, tuple); list != nullptr) {
    if (!list->is_array()) return fail(site, tuple, "must be an array of schemas");
    *prefix = static_cast<int64_t>(list->size());
    for (int64_t i = 0; i < *prefix; ++i) {
      const ExprId item = compile(child(site, tuple, std::to_string(i)));
      parts.push_back(pool_.make_not(pool_.items(1, i, i + 1, pool_.make_not(item))));
    }
  }
  if (find(site, rest) != nullptr) {
    *all = true;
    const ExprId item = compile(child(site, rest));
    parts.push_back(pool_.make_not(pool_.items(1, *prefix, kNoEnd, pool_.make_not(item))));
  }
  return pool_.make_and(std::move(parts));
}

ExprId SchemaCompiler::array_keywords(const Site& site) {
  int64_t prefix = 0;
  bool all = false;
  std::vector<ExprId> parts{item_keywords(site, &prefix, &all)};
  int64_t n = 0;
  const auto at_most = [&](int64_t most, ExprId item) {
    parts.push_back(pool_.make_not(pool_.items(most + 1, 0, kNoEnd, item)));
  };
  if (count(site, "minItems", &n)) parts.push_back(pool_.items(n, 0, kNoEnd, ExprPool::kTrue));
  if (count(site, "maxItems", &n)) at_most(n, ExprPool::kTrue);
  if (find(site, "contains") != nullptr) {
    const ExprId item = compile(child(site, "contains"));
    int64_t least = 1;
    count(site, "minContains", &least);
    parts.push_back(pool_.items(least, 0, kNoEnd, item));
    if (count(site, "maxContains", &n)) at_most(n, item);
  }
  if (const Json* unique = find(site, "uniqueItems"); unique != nullptr) {
    if (!unique->is_boolean()) return fail(site, "uniqueItems", "must be a boolean");
    if (unique->get<bool>()) {
      parts.push_back(pool_.unique());
      at_most(kUniqueItemsMax, ExprPool::kTrue);
    }
  }
  return only(JsonType::kArray, pool_.make_and(std::move(parts)));
}

// Which members or items the keywords beside and below `site` evaluate, each under the condition
// that the schema it stands in holds.
void SchemaCompiler::evaluated_here(const Site& site, ExprId condition,
                                    std::vector<Evaluated>& out) {
  Evaluated here;
  here.condition = condition;
  here.keys = keys_of(site);
  const bool every = find(site, "additionalProperties") != nullptr ||
                     find(site, "unevaluatedProperties") != nullptr;
  if (every) here.keys = ExprPool::kTrue;
  const Json* prefix = find(site, "prefixItems");
  const Json* items = find(site, "items");
  if (prefix != nullptr && prefix->is_array()) here.items = static_cast<int64_t>(prefix->size());
  if (items != nullptr) {
    here.items = items->is_array() ? static_cast<int64_t>(items->size()) : kNoEnd;
  }
  if (find(site, "additionalItems") != nullptr || find(site, "unevaluatedItems") != nullptr) {
    here.items = kNoEnd;
  }
  if (find(site, "contains") != nullptr && draft_ == 2020) {
    here.fitting = compile(child(site, "contains"));
  }
  out.push_back(here);
}

void SchemaCompiler::evaluated_by(const Site& site, ExprId condition, int depth,
                                  std::vector<Evaluated>& out) {
  if (failed() || !site.schema->is_object()) return;
  if (depth > 32) {
    fail(site, "$ref", "refers to itself below an unevaluated keyword");
    return;
  }
  if (depth > 0) evaluated_here(site, condition, out);
  const auto below = [&](const Site& next, ExprId more) {
    evaluated_by(next, pool_.make_and({condition, more}), depth + 1, out);
  };
  if (const Json* ref = find(site, "$ref"); ref != nullptr && ref->is_string()) {
    Site target;
    if (resolve(site, ref->get<std::string>(), &target)) below(target, ExprPool::kTrue);
  }
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    const Json* list = find(site, keyword);
    if (list == nullptr || !list->is_array()) continue;
    for (size_t i = 0; i < list->size(); ++i) {
      const Site next = child(site, keyword, std::to_string(i));
      below(next, keyword[1] == 'l' ? ExprPool::kTrue : compile(next));
    }
  }
  if (find(site, "if") != nullptr) {
    const ExprId holds = compile(child(site, "if"));
    below(child(site, "if"), holds);
    if (find(site, "then") != nullptr) below(child(site, "then"), holds);
    if (find(site, "else") != nullptr) below(child(site, "else"), pool_.make_not(holds));
  }
  if (const Json* list = find(site, "dependentSchemas"); list != nullptr && list->is_object()) {
    for (const auto& [key, schema] : list->items()) {
      below(child(site, "dependentSchemas", key),
            pool_.members(1, pool_.is(key), ExprPool::kTrue));
    }
  }
}

// For each way in which the conditions can come out: what none of them evaluated fits the schema.
ExprId SchemaCompiler::unevaluated(const Site& site) {
  const bool members = find(site, "unevaluatedProperties") != nullptr;
  const bool items = find(site, "unevaluatedItems") != nullptr;
  if (!members && !items) return ExprPool::kTrue;
  std::vector<Evaluated> all;
  Evaluated own;
  own.keys = find(site, "additionalProperties") != nullptr ? ExprPool::kTrue : keys_of(site);
  int64_t prefix = 0;
  bool every = false;
  item_keywords(site, &prefix, &every);
  own.items = every ? kNoEnd : prefix;
  if (find(site, "contains") != nullptr) own.fitting = compile(child(site, "contains"));
  all.push_back(own);
  evaluated_by(site, ExprPool::kTrue, 0, all);
  std::vector<ExprId> open;  // conditions that may come out either way
  for (const Evaluated& e : all) {
    const bool known = e.condition <= ExprPool::kTrue ||
                       std::find(open.begin(), open.end(), e.condition) != open.end();
    if (!known) open.push_back(e.condition);
  }
  const char* keyword = members ? "unevaluatedProperties" : "unevaluatedItems";
  if (open.size() > 6) return fail(site, keyword, "stands over more than 6 conditional schemas");
  const ExprId member = members ? compile(child(site, "unevaluatedProperties")) : ExprPool::kTrue;
  const ExprId item = items ? compile(child(site, "unevaluatedItems")) : ExprPool::kTrue;
  std::vector<ExprId> parts;
  for (size_t truths = 0; truths < (size_t{1} << open.size()); ++truths) {
    std::vector<ExprId> either;  // not this case, or the demand
    for (size_t i = 0; i < open.size(); ++i) {
      either.push_back((truths >> i & 1) != 0 ? pool_.make_not(open[i]) : open[i]);
    }
    std::vector<ExprId> keys;
    std::vector<ExprId> fitting{item};
    int64_t first = 0;
    for (const Evaluated& e : all) {
      const auto at = std::find(open.begin(), open.end(), e.condition) - open.begin();
      const bool holds = e.condition == ExprPool::kTrue ||
                         (e.condition != ExprPool::kFalse && (truths >> at & 1) != 0);
      if (!holds) continue;
      keys.push_back(e.keys);
      fitting.push_back(e.fitting);
      first = std::max(first, e.items);
    }
    const ExprId other = pool_.make_not(pool_.make_or(std::move(keys)));
    const ExprId on_members = pool_.make_not(pool_.members(1, other, pool_.make_not(member)));
    const ExprId on_items = pool_.make_not(
        pool_.items(1, first, kNoEnd, pool_.make_not(pool_.make_or(std::move(fitting)))));
    either.push_back(pool_.make_and({only(JsonType::kObject, on_members),
                                     only(JsonType::kArray, on_items)}));
    parts.push_back(pool_.make_or(std::move(either)));
  }
  return pool_.make_and(std::move(parts));
}

}  // namespace lineshaft::decoding
