// JSON text in the style that DeepSeek's prompts have it: a space after every comma and colon,
// nothing escaped that need not be. Must not parse.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace lineshaft::recipe {

// How doubles are written, both as the shortest decimal that reads back to the same bits.
enum class NumberStyle : uint8_t {
  kPlain,   // 0.00001, 1e-7, 1e+16
  kPython,  // 1e-05, 1e-07, 1e+16, as repr() has it
};

// Appends the document. Total: ill-formed UTF-8 becomes U+FFFD, a number that is not finite null.
void append_spaced_json(std::string& out, const Json& value, NumberStyle style);

}  // namespace lineshaft::recipe
