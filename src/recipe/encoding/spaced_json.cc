#include "recipe/encoding/spaced_json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace lineshaft::recipe {
namespace {

void append_double(std::string& out, double value, NumberStyle style) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  // The smallest exponent that is written without one: 1e-05 in Python, 0.00001 else.
  const int smallest = style == NumberStyle::kPython ? -4 : -5;
  if (exponent >= smallest && exponent < 16) {
    const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                     std::chars_format::fixed).ptr;
    text = {buffer, static_cast<size_t>(fixed - buffer)};
    out += text;
    if (text.find('.') == std::string_view::npos) out += ".0";
    return;
  }
  out += text.substr(0, e);
  out += 'e';
  out += exponent < 0 ? '-' : '+';
  const int digits = std::abs(exponent);
  if (digits < 10 && style == NumberStyle::kPython) out += '0';
  out += std::to_string(digits);
}

void append_members(std::string& out, const Json& object, NumberStyle style) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : object.items()) {
    if (!first) out += ", ";
    first = false;
    out += write_json(key);
    out += ": ";
    append_spaced_json(out, value, style);
  }
  out += '}';
}

}  // namespace

void append_spaced_json(std::string& out, const Json& value, NumberStyle style) {
  if (value.is_object()) return append_members(out, value, style);
  if (value.is_number_float()) return append_double(out, value.get<double>(), style);
  if (!value.is_array()) {
    out += write_json(value);
    return;
  }
  out += '[';
  for (size_t i = 0; i < value.size(); ++i) {
    if (i > 0) out += ", ";
    append_spaced_json(out, value[i], style);
  }
  out += ']';
}

}  // namespace lineshaft::recipe
