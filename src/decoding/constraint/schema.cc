#include "decoding/constraint/schema.h"

#include <algorithm>

#include "decoding/constraint/schema_compiler.h"

namespace lineshaft::decoding {
namespace {

constexpr int kSchemaDepthMax = 200;

std::string escape_pointer(const std::string& key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

// RFC 6901 within a URI fragment: percent escapes first.
std::string unescape_fragment(const std::string& text) {
  std::string out;
  const auto hex = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 &&
        hex(text[i + 2]) >= 0) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string unescape_pointer_part(std::string part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size()) {
      out += part[i + 1] == '1' ? '/' : '~';
      ++i;
    } else {
      out += part[i];
    }
  }
  return out;
}

std::string without_fragment(const std::string& uri) { return uri.substr(0, uri.find('#')); }

// Enough of RFC 3986, section 5, for ids of schemas.
std::string join_uri(const std::string& base, const std::string& ref) {
  const size_t colon = ref.find(':');
  if (colon != std::string::npos && ref.find('/') > colon) return ref;
  if (ref.empty() || ref[0] == '#') return without_fragment(base) + ref;
  const size_t scheme = base.find("://");
  const size_t path = scheme == std::string::npos ? 0 : base.find('/', scheme + 3);
  if (ref[0] == '/') return base.substr(0, path) + ref;
  const size_t slash = base.rfind('/');
  return (slash == std::string::npos ? std::string() : base.substr(0, slash + 1)) + ref;
}

}  // namespace

CompiledSchema compile_schema(const Json& schema, const SchemaLimits& limits) {
  return SchemaCompiler(schema, limits).run();
}

CompiledSchema SchemaCompiler::run() {
  choose_draft();
  collect(root_, "", "", "", 0);
  ExprId root = ExprPool::kFalse;
  if (!failed()) root = reference({&root_, "", ""}, "#");
  while (!waiting_.empty() && !failed()) {
    const Site site = waiting_.back();
    waiting_.pop_back();
    pool_.define(references_.at(site.pointer), compile(site));
  }
  std::map<ExprId, int> state;
  for (const auto& [pointer, number] : references_) {
    if (failed() || !in_place_cycle(pool_.definition(number), state)) continue;
    fail({&root_, pointer, ""}, "$ref", "the schema refers to itself for the same value");
  }
  CompiledSchema out;
  out.warnings = std::move(warnings_);
  if (failed()) {
    out.refusal = std::move(refusal_);
    return out;
  }
  auto program = std::make_shared<SchemaProgram>();
  program->pool = std::move(pool_);
  program->patterns = std::move(patterns_);
  program->root = root;
  out.program = std::move(program);
  return out;
}

ExprId SchemaCompiler::fail(const Site& site, std::string keyword, std::string reason) {
  if (!failed()) refusal_ = {"#" + site.pointer, std::move(keyword), std::move(reason)};
  return ExprPool::kTrue;
}

void SchemaCompiler::choose_draft() {
  const auto schema = root_.is_object() ? root_.find("$schema") : root_.end();
  if (!root_.is_object() || schema == root_.end() || !schema->is_string()) return;
  const std::string& uri = schema->get_ref<const std::string&>();
  if (uri.find("draft-03") != std::string::npos || uri.find("draft-04") != std::string::npos) {
    draft_ = 4;
  } else if (uri.find("draft-06") != std::string::npos) {
    draft_ = 6;
  } else if (uri.find("draft-07") != std::string::npos) {
    draft_ = 7;
  } else if (uri.find("2019-09") != std::string::npos) {
    draft_ = 2019;
  }
}

// Notes every id and anchor of the document.
void SchemaCompiler::collect(const Json& node, const std::string& pointer,
                             const std::string& resource, const std::string& base, int depth) {
  if (depth > kSchemaDepthMax) {
    fail({&root_, "", ""}, "", "the schema is nested too deeply");
    return;
  }
  std::string own_resource = resource;
  std::string own_base = base;
  if (node.is_object()) {
    const auto id = node.find(draft_ == 4 ? "id" : "$id");
    // In properties, "id" is the name of a member: its value is a schema then, not a string.
    if (id != node.end() && id->is_string()) {
      const std::string uri = join_uri(base, id->get<std::string>());
      const size_t hash = uri.find('#');
      if (hash == std::string::npos || hash + 1 == uri.size()) {
        own_resource = pointer;
        own_base = without_fragment(uri);
        by_uri_.emplace(own_base, Site{&node, pointer, pointer});
      } else {
        by_uri_.emplace(uri, Site{&node, pointer, resource});
      }
    }
    const auto anchor = node.find("$anchor");
    if (anchor != node.end() && anchor->is_string()) {
      by_uri_.emplace(own_base + "#" + anchor->get<std::string>(),
                      Site{&node, pointer, own_resource});
    }
    if (own_resource != resource || pointer.empty()) bases_[own_resource] = own_base;
    if (own_resource == pointer) resources_[pointer] = own_resource;
    for (const auto& [key, member] : node.items()) {
      if (key == "enum" || key == "const" || key == "default" || key == "examples") continue;
      if (!member.is_structured()) continue;
      collect(member, pointer + "/" + escape_pointer(key), own_resource, own_base, depth + 1);
    }
  } else if (node.is_array()) {
    for (size_t i = 0; i < node.size(); ++i) {
      if (!node[i].is_structured()) continue;
      collect(node[i], pointer + "/" + std::to_string(i), own_resource, own_base, depth + 1);
    }
  }
}

SchemaCompiler::Site SchemaCompiler::child(const Site& site, const std::string& keyword) const {
  Site out{&(*site.schema->find(keyword)), site.pointer + "/" + escape_pointer(keyword),
           site.resource};
  if (const auto own = resources_.find(out.pointer); own != resources_.end()) {
    out.resource = own->second;
  }
  return out;
}

SchemaCompiler::Site SchemaCompiler::child(const Site& site, const std::string& keyword,
                                           const std::string& key) const {
  Site out = child(site, keyword);
  out.schema = out.schema->is_array() ? &(*out.schema)[std::stoul(key)] : &(*out.schema->find(key));
  out.pointer += "/" + escape_pointer(key);
  if (const auto own = resources_.find(out.pointer); own != resources_.end()) {
    out.resource = own->second;
  }
  return out;
}

const Json* SchemaCompiler::find(const Site& site, const char* keyword) const {
  const auto found = site.schema->find(keyword);
  return found == site.schema->end() ? nullptr : &*found;
}

ExprId SchemaCompiler::only(JsonType type, ExprId formula) {
  return pool_.make_or({pool_.types(kAnyType & ~type_bit(type)), formula});
}

ExprId SchemaCompiler::compile(const Site& site) {
  if (failed()) return ExprPool::kTrue;
  if (site.schema->is_boolean()) {
    return site.schema->get<bool>() ? ExprPool::kTrue : ExprPool::kFalse;
  }
  if (!site.schema->is_object()) return fail(site, "", "a schema must be an object or a boolean");
  if (pool_.size() > limits_.formulas_max) {
    return fail(site, "", "the schema needs more formulas than the budget allows");
  }
  return keywords(site);
}

ExprId SchemaCompiler::keywords(const Site& site) {
  for (const char* keyword : {"$dynamicRef", "$recursiveRef", "extends", "disallow"}) {
    if (find(site, keyword) != nullptr) return fail(site, keyword, "is not supported");
  }
  std::vector<ExprId> parts;
  if (const Json* ref = find(site, "$ref"); ref != nullptr) {
    if (!ref->is_string()) return fail(site, "$ref", "must be a string");
    parts.push_back(reference(site, ref->get<std::string>()));
    if (draft_ <= 7) return parts[0];  // up to draft 7 what stands beside $ref is ignored
  }
  if (const Json* type = find(site, "type"); type != nullptr) {
    parts.push_back(type_keyword(site, *type));
  }
  if (const Json* value = find(site, "const"); value != nullptr) {
    parts.push_back(const_formula(pool_, *value));
  }
  if (const Json* list = find(site, "enum"); list != nullptr) {
    if (!list->is_array()) return fail(site, "enum", "must be an array");
    std::vector<ExprId> any;
    for (const Json& value : *list) any.push_back(const_formula(pool_, value));
    parts.push_back(pool_.make_or(std::move(any)));
  }
  parts.push_back(string_keywords(site));
  parts.push_back(number_keywords(site));
  parts.push_back(object_keywords(site));
  parts.push_back(array_keywords(site));
  parts.push_back(logic_keywords(site));
  parts.push_back(unevaluated(site));
  return pool_.make_and(std::move(parts));
}

ExprId SchemaCompiler::one_type(const std::string& name) {
  if (name == "null") return pool_.types(type_bit(JsonType::kNull));
  if (name == "boolean") return pool_.types(kBooleans);
  if (name == "string") return pool_.types(type_bit(JsonType::kString));
  if (name == "object") return pool_.types(type_bit(JsonType::kObject));
  if (name == "array") return pool_.types(type_bit(JsonType::kArray));
  const ExprId number = pool_.types(type_bit(JsonType::kNumber));
  if (name == "number") return number;
  if (name != "integer") return -1;
  const ExprId whole = draft_ == 4 ? pool_.whole() : pool_.multiple({1, 0});
  return pool_.make_and({number, whole});
}

ExprId SchemaCompiler::type_keyword(const Site& site, const Json& value) {
  std::vector<ExprId> any;
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& name : list) {
    const ExprId type = name.is_string() ? one_type(name.get<std::string>()) : -1;
    if (type < 0) return fail(site, "type", "is not the name of a JSON type: " + write_json(name));
    any.push_back(type);
  }
  return pool_.make_or(std::move(any));
}

bool SchemaCompiler::count(const Site& site, const char* keyword, int64_t* out) {
  const Json* value = find(site, keyword);
  if (value == nullptr) return false;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < 0 || number != static_cast<double>(static_cast<int64_t>(std::min(number, 1e15)))) {
    fail(site, keyword, "must be a whole number that is not negative");
    return false;
  }
  *out = static_cast<int64_t>(number);
  return true;
}

bool SchemaCompiler::schema_list(const Site& site, const char* keyword,
                                 std::vector<ExprId>* out) {
  const Json* list = find(site, keyword);
  if (list == nullptr) return false;
  if (!list->is_array()) {
    fail(site, keyword, "must be an array of schemas");
    return false;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    out->push_back(compile(child(site, keyword, std::to_string(i))));
  }
  return true;
}

ExprId SchemaCompiler::logic_keywords(const Site& site) {
  std::vector<ExprId> parts;
  std::vector<ExprId> list;
  if (schema_list(site, "allOf", &list)) parts.push_back(pool_.make_and(list));
  list.clear();
  if (schema_list(site, "anyOf", &list)) parts.push_back(pool_.make_or(list));
  list.clear();
  if (schema_list(site, "oneOf", &list)) {
    if (list.size() > 400) return fail(site, "oneOf", "has more than 400 alternatives");
    parts.push_back(pool_.make_one_of(list));
  }
  if (find(site, "not") != nullptr) {
    parts.push_back(pool_.make_not(compile(child(site, "not"))));
  }
  if (find(site, "if") != nullptr) {
    const ExprId condition = compile(child(site, "if"));
    if (find(site, "then") != nullptr) {
      parts.push_back(
          pool_.make_or({pool_.make_not(condition), compile(child(site, "then"))}));
    }
    if (find(site, "else") != nullptr) {
      parts.push_back(pool_.make_or({condition, compile(child(site, "else"))}));
    }
  }
  return pool_.make_and(std::move(parts));
}

bool SchemaCompiler::by_pointer(const std::string& resource, const std::string& pointer,
                                Site* out) const {
  Site site{&root_, "", ""};
  const std::string path = resource + pointer;
  size_t at = 0;
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string part = unescape_pointer_part(path.substr(at + 1, end - at - 1));
    const Json& node = *site.schema;
    if (node.is_object()) {
      const auto found = node.find(part);
      if (found == node.end()) return false;
      site.schema = &*found;
    } else if (node.is_array()) {
      if (part.empty() || part.size() > 8 ||
          part.find_first_not_of("0123456789") != std::string::npos) {
        return false;
      }
      const size_t index = std::stoul(part);
      if (index >= node.size()) return false;
      site.schema = &node[index];
    } else {
      return false;
    }
    site.pointer += "/" + escape_pointer(part);
    if (const auto own = resources_.find(site.pointer); own != resources_.end()) {
      site.resource = own->second;
    }
    at = end;
  }
  *out = site;
  return true;
}

bool SchemaCompiler::resolve(const Site& site, const std::string& ref, Site* out) const {
  const auto base = bases_.find(site.resource);
  const std::string uri = join_uri(base == bases_.end() ? "" : base->second, ref);
  const size_t hash = uri.find('#');
  const std::string fragment =
      hash == std::string::npos ? "" : unescape_fragment(uri.substr(hash + 1));
  std::string resource;
  if (ref.empty() || ref[0] == '#') {
    resource = site.resource;
  } else {
    const auto found = by_uri_.find(without_fragment(uri));
    if (found == by_uri_.end()) {
      const auto exact = by_uri_.find(uri);
      if (exact == by_uri_.end()) return false;
      *out = exact->second;
      return true;
    }
    resource = found->second.pointer;
  }
  if (fragment.empty() || fragment[0] == '/') {
    return by_pointer(resource, fragment, out) || by_pointer("", fragment, out);
  }
  const auto found = by_uri_.find(without_fragment(uri) + "#" + fragment);
  if (found == by_uri_.end()) return false;
  *out = found->second;
  return true;
}

ExprId SchemaCompiler::reference(const Site& site, const std::string& ref) {
  Site target;
  if (!resolve(site, ref, &target)) {
    return fail(site, "$ref", "does not lead to a schema in this document: " + ref);
  }
  const auto [found, is_new] =
      references_.emplace(target.pointer, static_cast<int32_t>(references_.size()));
  if (is_new) {
    pool_.define(found->second, ExprPool::kTrue);
    waiting_.push_back(target);
  }
  return pool_.ref(found->second);
}

// True when looking up `id` leads back to it without entering a member or an item.
bool SchemaCompiler::in_place_cycle(ExprId id, std::map<ExprId, int>& state) const {
  struct Entry {
    ExprId id;
    bool leave;
  };
  std::vector<Entry> todo{{id, false}};
  while (!todo.empty()) {
    const Entry entry = todo.back();
    todo.pop_back();
    if (entry.leave) {
      state[entry.id] = 2;
      continue;
    }
    int& at = state[entry.id];
    if (at == 2) continue;
    if (at == 1) return true;
    at = 1;
    todo.push_back({entry.id, true});
    const Expr& e = pool_.at(entry.id);
    std::vector<ExprId> next = e.children;
    if (e.kind == Expr::Kind::kNot) next.push_back(e.a);
    if (e.kind == Expr::Kind::kRef) next.push_back(pool_.definition(e.a));
    for (const ExprId child : next) {
      if (state[child] == 1) return true;
      if (state[child] == 0) todo.push_back({child, false});
    }
  }
  return false;
}

}  // namespace lineshaft::decoding
