#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace lineshaft {
namespace {

// Where byte `offset` of `text` lies: "line 2, column 7 (byte 31)"; all but bytes count from 1.
std::string position_text(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return fmt::format("line {}, column {} (byte {})", line, column, offset);
}

// nlohmann says "[...] parse error at line 1, column 2: syntax error while ... - reason; last
// read: '...'; expected ...". Keeps the reason and drops what quotes the input.
std::string reason_text(std::string what) {
  const size_t colon = what.find(": ");
  if (colon != std::string::npos) what.erase(0, colon + 2);
  const size_t quote = what.find("; last read: '");
  if (quote != std::string::npos) {
    const size_t tail = what.rfind("'; expected ");
    const std::string expected = tail == std::string::npos ? "" : "; " + what.substr(tail + 3);
    what = what.substr(0, quote) + expected;
  }
  return what;
}

// Builds the tree from parser events, so that limits hold while it grows.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override;
  bool parse_error(size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return fail(fmt::format("invalid JSON at {}: {}",
                            position_text(text_, byte == 0 ? 0 : byte - 1),
                            reason_text(error.what())));
  }

  Json take_root() { return std::move(root_); }
  const std::string& error() const { return error_; }

 private:
  // Of the container that ends: each key once, where it first stood, with its last value.
  void keep_last_values();

  bool fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  // Puts the value where it belongs; the slot stays where it is until its parent ends.
  Json* place(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    // ordered_map's own emplace looks for the key first, which is quadratic in the keys;
    // end_object looks for doubles once.
    auto& object = static_cast<Json::object_t::Container&>(parent.get_ref<Json::object_t&>());
    object.emplace_back(std::move(key_), std::move(value));
    return &object.back().second;
  }

  bool add(Json&& value) {
    if (++count_ > limits_.values_max) {
      return fail(fmt::format("JSON holds more than {} values", limits_.values_max));
    }
    place(std::move(value));
    return true;
  }

  bool open(Json&& container) {
    if (static_cast<int>(open_.size()) >= limits_.depth_max) {
      return fail(fmt::format("JSON is nested deeper than {} levels", limits_.depth_max));
    }
    if (++count_ > limits_.values_max) {
      return fail(fmt::format("JSON holds more than {} values", limits_.values_max));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  std::string_view text_;
  JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;  // the containers that have not ended, outermost first
  std::string key_;
  size_t count_ = 0;
  std::string error_;
};

bool Builder::end_object() {
  const auto& object = open_.back()->get_ref<const Json::object_t&>();
  std::vector<std::string_view> keys;
  keys.reserve(object.size());
  for (const auto& [key, value] : object) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end() && limits_.last_key_wins) {
    keep_last_values();
  } else if (twice != keys.end()) {
    return fail(fmt::format("JSON object has the key '{}' twice", twice->substr(0, 64)));
  }
  open_.pop_back();
  return true;
}

void Builder::keep_last_values() {
  auto& object = open_.back()->get_ref<Json::object_t&>();
  std::unordered_map<std::string, size_t> places;
  Json::object_t kept;
  auto& members = static_cast<Json::object_t::Container&>(kept);
  for (auto& [key, value] : object) {
    const auto [place, is_new] = places.emplace(key, members.size());
    if (is_new) {
      members.emplace_back(key, std::move(value));
    } else {
      members[place->second].second = std::move(value);
    }
  }
  object = std::move(kept);
}

}  // namespace

StatusOr<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes_max) {
    return invalid_argument("JSON of {} bytes exceeds the limit of {}", text.size(),
                            limits.bytes_max);
  }
  const size_t valid = valid_utf8_prefix(text);
  if (valid != text.size()) {
    return invalid_argument("not UTF-8 at {}", position_text(text, valid));
  }
  Builder builder(text, limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return make_status(StatusCode::kInvalidArgument, builder.error());
  }
  return builder.take_root();
}

std::string write_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_json_string(std::string& out, std::string_view text) {
  if (valid_utf8_prefix(text) != text.size()) {
    append_json_string(out, repair_utf8(text));
    return;
  }
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

void append_json_float(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  out.append(digits, end);
}

Json json_float(float value) {
  if (!std::isfinite(value)) return nullptr;
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double wide = 0.0;
  std::from_chars(digits, end, wide);
  return wide;
}

}  // namespace lineshaft
