#include "recipe/dialect/fields.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace lineshaft::recipe {
namespace {

unsigned type_of(const Json& value) {
  if (value.is_boolean()) return kBool;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  return 0;
}

std::string wanted_types(unsigned types) {
  constexpr std::pair<unsigned, std::string_view> kNames[] = {
      {kBool, "true or false"}, {kNumber, "a number"}, {kString, "a string"},
      {kArray, "an array"},     {kObject, "an object"},
  };
  std::string out;
  for (const auto& [type, name] : kNames) {
    if ((types & type) == 0) continue;
    if (!out.empty()) out += " or ";
    out += name;
  }
  return out;
}

}  // namespace

void Warnings::add(std::string sentence) {
  if (full()) return skip();
  sentences_.push_back(std::move(sentence));
}

std::vector<std::string> Warnings::list() const {
  std::vector<std::string> out = sentences_;
  if (dropped_ > 0) out.push_back(fmt::format("and {} more", dropped_));
  return out;
}

std::string_view json_type_name(const Json& value) {
  switch (type_of(value)) {
    case kBool: return "a boolean";
    case kNumber: return "a number";
    case kString: return "a string";
    case kArray: return "an array";
    case kObject: return "an object";
    default: return "null";
  }
}

std::string shown(std::string_view text) {
  std::string out = repair_utf8(text.substr(0, 64));
  out.erase(std::remove_if(out.begin(), out.end(),
                           [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
            out.end());
  if (text.size() > 64) out += "...";
  return out;
}

StatusOr<int64_t> integer_value(const Json& value, std::string_view path, int64_t min,
                                int64_t max) {
  if (!value.is_number_integer()) {
    return field_error(path, "must be an integer{}", value.is_number() ? std::string()
                       : fmt::format(", not {}", json_type_name(value)));
  }
  const bool above = value.is_number_unsigned() &&
                     value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = above ? INT64_MAX : value.get<int64_t>();
  if (above || number < min || number > max) {
    return field_error(path, "must lie between {} and {}", min, max);
  }
  return number;
}

StatusOr<double> number_value(const Json& value, std::string_view path, double min, double max) {
  if (!value.is_number()) {
    return field_error(path, "must be a number, not {}", json_type_name(value));
  }
  const auto number = value.get<double>();
  if (!(number >= min && number <= max)) {
    return field_error(path, "must lie between {} and {}", min, max);
  }
  return number;
}

Fields::Fields(const Json& object, std::string path, Warnings& warnings)
    : object_(object), path_(std::move(path)), warnings_(warnings) {}

std::string Fields::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const Json* Fields::take(std::string_view key) {
  known_.push_back(key);
  const auto found = object_.find(std::string(key));
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

Status Fields::read_bool(std::string_view key, bool& out) {
  const Json* value = take(key);
  if (value == nullptr) return ok_status();
  if (!value->is_boolean()) {
    return field_error(path_of(key), "must be true or false, not {}", json_type_name(*value));
  }
  out = value->get<bool>();
  return ok_status();
}

Status Fields::read_string(std::string_view key, std::string& out) {
  const Json* value = take(key);
  if (value == nullptr) return ok_status();
  if (!value->is_string()) {
    return field_error(path_of(key), "must be a string, not {}", json_type_name(*value));
  }
  out = value->get_ref<const std::string&>();
  return ok_status();
}

Status Fields::read_number(std::string_view key, double min, double max, float& out) {
  const Json* value = take(key);
  if (value == nullptr) return ok_status();
  LS_ASSIGN_OR_RETURN(const double number, number_value(*value, path_of(key), min, max));
  out = static_cast<float>(number);
  return ok_status();
}

Status Fields::read_integer(std::string_view key, int64_t min, int64_t max, int64_t& out) {
  const Json* value = take(key);
  if (value == nullptr) return ok_status();
  LS_ASSIGN_OR_RETURN(out, integer_value(*value, path_of(key), min, max));
  return ok_status();
}

Status Fields::ignore(std::string_view key, unsigned types, std::string_view why) {
  const Json* value = take(key);
  if (value == nullptr) return ok_status();
  if ((type_of(*value) & types) == 0) {
    return field_error(path_of(key), "must be {}, not {}", wanted_types(types),
                       json_type_name(*value));
  }
  warnings_.add(fmt::format("'{}' is ignored: {}", path_of(key), why));
  return ok_status();
}

Status Fields::refuse(std::string_view key, std::string_view why) {
  if (take(key) == nullptr) return ok_status();
  return field_error(path_of(key), "is not supported: {}", why);
}

Status Fields::finish(bool strict) {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    if (warnings_.full() && !strict) {
      warnings_.skip();
      continue;
    }
    const std::string path = path_of(shown(key));
    if (strict) return field_error(path, "is not a known field");
    warnings_.add(fmt::format("'{}' is ignored: not a known field", path));
  }
  return ok_status();
}

}  // namespace lineshaft::recipe
