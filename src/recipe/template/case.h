// Upper and lower case of text as Python has it, origins kept.
#pragma once

#include "recipe/template/origin_text.h"

namespace lineshaft::recipe::jinja {

OriginText upper_case(const OriginText& text);
OriginText lower_case(const OriginText& text);
// Each word (behind white space, a hyphen or an opening bracket) with a capital, the rest small.
OriginText title_case(const OriginText& text);
// The first character with a capital, the rest small.
OriginText capital_case(const OriginText& text);

}  // namespace lineshaft::recipe::jinja
