// Lexer: the text of a template -> tokens, with the white space control of Jinja 2 as Hugging Face
// sets it (trim_blocks, lstrip_blocks, one line break at the end dropped). Knows no grammar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lineshaft::recipe::jinja {

enum class TokenType : uint8_t {
  kData,           // text between tags; its final form is in `text`
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,     // {%
  kBlockEnd,
  kName,
  kString,         // unescaped in `text`
  kInteger,        // digits in `text`
  kFloat,
  kOperator,       // in `text`
  kEnd,
};

struct Lexeme {
  TokenType type = TokenType::kEnd;
  uint32_t offset = 0;  // byte in the source
  std::string text;
};

// Line breaks as \n and without one at the end: the source that offsets count in.
std::string normalized_source(std::string_view text);

// kInvalidArgument with "line L, column C: " for what Jinja refuses too. The last lexeme is kEnd.
StatusOr<std::vector<Lexeme>> lex(std::string_view source);

// "line L, column C" (from 1, in code points) of a byte of the source.
std::string place_of(std::string_view source, uint32_t offset);

}  // namespace lineshaft::recipe::jinja
