// Fields: typed reads from one JSON object of a request, each with its limits. Every key must be
// read, ignored by name or refused by name; what is left over becomes a warning. Knows no field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace lineshaft::recipe {

// The warnings of one reply: bounded, however long the request.
class Warnings {
 public:
  void add(std::string sentence);
  // No room for another sentence: skip() counts it, so that nobody writes it in vain.
  bool full() const { return sentences_.size() >= kMax; }
  void skip() { ++dropped_; }
  // What was added, with a last line that counts what did not fit.
  std::vector<std::string> list() const;

 private:
  static constexpr size_t kMax = 32;
  std::vector<std::string> sentences_;
  size_t dropped_ = 0;
};

// JSON types, as a set.
enum JsonTypes : unsigned {
  kBool = 1,
  kNumber = 2,
  kString = 4,
  kArray = 8,
  kObject = 16,
};

// "a string", "an array", …: what the value is.
std::string_view json_type_name(const Json& value);

// kInvalidArgument about `path`, as with_field has it; the sentence begins with the path.
template <typename... Args>
Status field_error(std::string_view path, fmt::format_string<Args...> format, Args&&... args) {
  const std::string sentence = fmt::format(format, std::forward<Args>(args)...);
  return with_field(invalid_argument("'{}' {}", path, sentence), path);
}

class Fields {
 public:
  // `object` is an object; `path` is "" for the body or "messages[0]". Both outlive the Fields.
  Fields(const Json& object, std::string path, Warnings& warnings);

  // The value; nullptr when the key is missing or null, which mean the same everywhere.
  const Json* take(std::string_view key);

  // Each leaves `out` alone when the key is missing or null, and fails with the path when the value
  // is of another type or out of range.
  Status read_bool(std::string_view key, bool& out);
  Status read_string(std::string_view key, std::string& out);
  Status read_number(std::string_view key, double min, double max, float& out);
  Status read_integer(std::string_view key, int64_t min, int64_t max, int64_t& out);

  // The key is known and changes nothing here; `why` completes "'key' is ignored: ...". Its type is
  // checked all the same.
  Status ignore(std::string_view key, unsigned types, std::string_view why);
  // The key is known and can't be served; `why` completes "'key' is not supported: ...".
  Status refuse(std::string_view key, std::string_view why);

  // Warns of keys that nobody asked for; in strict mode refuses them.
  Status finish(bool strict);

  // "messages[0].content" for "content".
  std::string path_of(std::string_view key) const;

 private:
  const Json& object_;
  const std::string path_;
  Warnings& warnings_;
  std::vector<std::string_view> known_;
};

// As the Fields functions, for a value that is there.
StatusOr<int64_t> integer_value(const Json& value, std::string_view path, int64_t min, int64_t max);
StatusOr<double> number_value(const Json& value, std::string_view path, double min, double max);

// Part of a sentence that shows what users sent: cut short, control characters removed.
std::string shown(std::string_view text);

}  // namespace lineshaft::recipe
