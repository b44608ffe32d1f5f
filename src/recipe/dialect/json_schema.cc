#include "recipe/dialect/json_schema.h"

#include <algorithm>
#include <array>
#include <string>

namespace lineshaft::recipe {
namespace {

constexpr std::array<std::string_view, 7> kTypes = {"object",  "string", "number", "integer",
                                                    "boolean", "array",  "null"};

bool is_type_name(const Json& value) {
  return value.is_string() &&
         std::find(kTypes.begin(), kTypes.end(), value.get_ref<const std::string&>()) !=
             kTypes.end();
}

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Status not_of_type(const Json& value, std::string_view types) {
  return invalid_argument("{} is not of type{}", write_json(value), types);
}

Status check_type(const Json& type) {
  const auto& known = is_type_name;
  const bool list = type.is_array() && !type.empty();
  if (known(type) || (list && std::all_of(type.begin(), type.end(), known))) return ok_status();
  return invalid_argument(
      "{} is not valid under any of the schemas listed in the 'anyOf' keyword", write_json(type));
}

Status check_all(const Json& schemas) {
  for (const auto& schema : schemas) LS_RETURN_IF_ERROR(check_schema(schema));
  return ok_status();
}

// One keyword of a schema; unknown ones may hold anything.
Status check_keyword(std::string_view key, const Json& value) {
  if (key == "type") return check_type(value);
  if (is_one_of(key, {"properties", "patternProperties", "$defs", "definitions",
                      "dependentSchemas"})) {
    return value.is_object() ? check_all(value) : not_of_type(value, " \"object\"");
  }
  if (is_one_of(key, {"anyOf", "oneOf", "allOf", "prefixItems"})) {
    return value.is_array() ? check_all(value) : not_of_type(value, " \"array\"");
  }
  if (key == "items" && value.is_array()) return check_all(value);
  if (is_one_of(key, {"items", "additionalProperties", "not", "if", "then", "else", "contains",
                      "propertyNames"})) {
    return check_schema(value);
  }
  if (is_one_of(key, {"enum", "required", "examples"})) {
    return value.is_array() ? ok_status() : not_of_type(value, " \"array\"");
  }
  if (is_one_of(key, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                      "multipleOf"})) {
    return value.is_number() ? ok_status() : not_of_type(value, " \"number\"");
  }
  if (is_one_of(key, {"minLength", "maxLength", "minItems", "maxItems", "minProperties",
                      "maxProperties"})) {
    return value.is_number() ? ok_status() : not_of_type(value, " \"integer\"");
  }
  if (is_one_of(key, {"description", "title", "pattern", "format", "$ref", "$id", "$schema"})) {
    return value.is_string() ? ok_status() : not_of_type(value, " \"string\"");
  }
  return ok_status();
}

// Builds canonical strict schemas.
class Strict {
 public:
  explicit Strict(std::string_view root) : root_(root) {}

  StatusOr<Json> schema(const Json& in, bool top);

 private:
  template <typename... Args>
  Status broken(fmt::format_string<Args...> format, Args&&... args) const {
    return invalid_argument("Invalid {} : {}", root_, fmt::format(format,
                                                                  std::forward<Args>(args)...));
  }
  StatusOr<Json> object(const Json& in, bool top);
  Status check_required(const Json& in, const Json& properties) const;
  StatusOr<Json> any_of(const Json& in);
  StatusOr<Json> array(const Json& in);
  StatusOr<Json> scalar(const Json& in, std::string_view type);
  StatusOr<Json> several(const Json& in);

  const std::string_view root_;
};

const Json* member(const Json& in, std::string_view key) {
  const auto found = in.find(std::string(key));
  return found == in.end() || found->is_null() ? nullptr : &*found;
}

void copy_member(const Json& in, std::string_view key, Json& out) {
  if (const Json* value = member(in, key)) out[std::string(key)] = *value;
}

Status Strict::check_required(const Json& in, const Json& properties) const {
  const Json* required = member(in, "required");
  if (required == nullptr) return ok_status();
  for (auto it = required->begin(); it != required->end(); ++it) {
    if (!it->is_string()) return broken("invalid type: {}, expected a string", write_json(*it));
    const auto& name = it->get_ref<const std::string&>();
    if (!properties.contains(name)) {
      return invalid_argument("Required property '{}' not found in object", name);
    }
    if (std::find(required->begin(), it, *it) != it) {
      return invalid_argument("Duplicate required property '{}'", name);
    }
  }
  if (required->size() != properties.size()) {
    return invalid_argument("Required properties must match all properties in the object");
  }
  return ok_status();
}

StatusOr<Json> Strict::object(const Json& in, bool top) {
  Json properties = Json::object();
  Json names = Json::array();
  if (const Json* given = member(in, "properties")) {
    for (const auto& [name, value] : given->items()) {
      LS_ASSIGN_OR_RETURN(properties[name], schema(value, false));
      names.push_back(name);
    }
  }
  if (const Json* more = member(in, "additionalProperties")) {
    if (!more->is_boolean()) return broken("invalid type: map, expected a boolean");
    if (more->get<bool>()) return invalid_argument("additionalProperties should not be true");
  }
  if (properties.empty() && !top) {
    return invalid_argument("An object with no properties is not allowed.");
  }
  LS_RETURN_IF_ERROR(check_required(in, properties));
  Json out = {{"type", "object"}};
  out["properties"] = std::move(properties);
  out["additionalProperties"] = false;
  out["required"] = std::move(names);
  copy_member(in, "description", out);
  if (const Json* definitions = member(in, "$def"); definitions && definitions->is_object()) {
    Json kept = Json::object();
    for (const auto& [name, value] : definitions->items()) {
      LS_ASSIGN_OR_RETURN(kept[name], schema(value, false));
    }
    out["$def"] = std::move(kept);
  }
  return out;
}

StatusOr<Json> Strict::any_of(const Json& in) {
  Json forms = Json::array();
  for (const Json& form : *member(in, "anyOf")) {
    LS_ASSIGN_OR_RETURN(Json kept, schema(form, false));
    forms.push_back(std::move(kept));
  }
  Json out = Json::object();
  out["anyOf"] = std::move(forms);
  copy_member(in, "description", out);
  return out;
}

StatusOr<Json> Strict::array(const Json& in) {
  const Json* items = member(in, "items");
  if (items == nullptr) return broken("missing field `items`");
  LS_ASSIGN_OR_RETURN(Json kept, schema(*items, false));
  Json out = {{"type", "array"}};
  out["items"] = std::move(kept);
  copy_member(in, "description", out);
  return out;
}

StatusOr<Json> Strict::scalar(const Json& in, std::string_view type) {
  Json out = {{"type", std::string(type)}};
  copy_member(in, "description", out);
  if (type == "string") {
    copy_member(in, "pattern", out);
    if (const Json* format = member(in, "format")) {
      const auto& name = format->get_ref<const std::string&>();
      if (!is_one_of(name, {"email", "hostname", "ipv4", "ipv6", "uuid"})) {
        return broken(
            "unknown variant `{}`, expected one of `email`, `hostname`, `ipv4`, `ipv6`, `uuid`",
            name);
      }
      out["format"] = name;
    }
    if (const Json* values = member(in, "enum")) {
      for (const Json& value : *values) {
        if (!value.is_string()) {
          return broken("invalid type: {}, expected a string", write_json(value));
        }
      }
      out["enum"] = *values;
    }
  }
  if (type != "number" && type != "integer") return out;
  for (const std::string_view key : {"const", "default", "minimum", "maximum", "exclusiveMinimum",
                                     "exclusiveMaximum", "multipleOf"}) {
    const Json* value = member(in, key);
    if (value == nullptr) continue;
    if (!value->is_number() || (type == "integer" && !value->is_number_integer())) {
      return broken("invalid type: {}, expected {}", write_json(*value),
                    type == "integer" ? "i64" : "a JSON number");
    }
    copy_member(in, key, out);
  }
  return out;
}

// A list of scalar types.
StatusOr<Json> Strict::several(const Json& in) {
  for (const Json& type : in["type"]) {
    if (type == "object" || type == "array") {
      return broken("field `type`: unknown variant `{}`, expected one of `string`, `number`, "
                    "`integer`, `boolean`, `null`", type.get_ref<const std::string&>());
    }
  }
  Json out = {{"type", in["type"]}};
  copy_member(in, "description", out);
  return out;
}

// check_schema() has seen to the types of the keywords.
StatusOr<Json> Strict::schema(const Json& in, bool top) {
  const Json* type = in.is_object() ? member(in, "type") : nullptr;
  if (type != nullptr && type->is_array()) return several(in);
  if (type != nullptr) {
    const auto& name = type->get_ref<const std::string&>();
    if (name == "object") return object(in, top);
    return name == "array" ? array(in) : scalar(in, name);
  }
  if (in.is_object() && member(in, "anyOf") != nullptr) return any_of(in);
  const Json* reference = in.is_object() ? member(in, "$ref") : nullptr;
  if (reference == nullptr) {
    return broken("one of `type`, `anyOf`, `$ref` field is required");
  }
  return Json{{"$ref", *reference}};
}

}  // namespace

Status check_schema(const Json& schema) {
  if (schema.is_boolean()) return ok_status();
  if (!schema.is_object()) return not_of_type(schema, "s \"boolean\", \"object\"");
  for (const auto& [key, value] : schema.items()) {
    if (value.is_null()) continue;
    LS_RETURN_IF_ERROR(check_keyword(key, value));
  }
  return ok_status();
}

StatusOr<Json> strict_schema(const Json& schema, std::string_view root) {
  return Strict(root).schema(schema, true);
}

}  // namespace lineshaft::recipe
