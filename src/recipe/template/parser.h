// Parser: tokens of a template -> its parsed form. The grammar is Jinja 2's without inheritance,
// imports and call blocks.
#pragma once

#include <string_view>

#include "base/status.h"
#include "recipe/template/ast.h"

namespace lineshaft::recipe::jinja {

// `source` as normalized_source gives it. kInvalidArgument for what is no template, kUnimplemented
// for statements, filters and tests that are not supported, by name; all with "line L, column C: ".
StatusOr<Ast> parse(std::string_view source);

}  // namespace lineshaft::recipe::jinja
