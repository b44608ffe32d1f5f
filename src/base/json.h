// JSON: the one strict way in and the one way out that cannot fail. Wraps nlohmann::ordered_json;
// nothing else in the house parses or prints JSON. Must not know what any document means.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lineshaft {

// Keeps the order of keys. Reading a value as another type than it has throws inside nlohmann:
// ask is_string() and the like first.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t bytes_max = size_t{64} << 20;
  int depth_max = 64;                  // nested arrays and objects
  size_t values_max = 8'000'000;       // a value takes 16 bytes and more
  bool last_key_wins = false;          // a key given again replaces the value where it stood
};

// Parses one RFC 8259 document. kInvalidArgument, with line, column and byte, for: bytes that are
// not UTF-8, lone surrogates, a key given twice (unless limits.last_key_wins), numbers beyond
// double, anything after the document, and documents beyond `limits`. Never throws.
StatusOr<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// The document without spaces, doubles in a form that reads back to the same bits; ill-formed
// UTF-8 in strings becomes U+FFFD and a number that is not finite becomes null. Never throws.
std::string write_json(const Json& value);

// Appends `text` as a JSON string with its quotes; ill-formed UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Appends the shortest decimal that reads back to the same float; null when not finite.
void append_json_float(std::string& out, float value);

// The double whose shortest decimal is that of the float: prints 0.1f as 0.1.
Json json_float(float value);

}  // namespace lineshaft
