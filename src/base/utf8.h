// UTF-8: checking text at the door and repairing it on the way out. Knows no other encoding.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lineshaft {

// Length of the longest prefix of `text` that is well-formed UTF-8 (Unicode 15, table 3-7: no
// surrogates, no overlong forms, at most U+10FFFF). Equals text.size() iff all of it is.
size_t valid_utf8_prefix(std::string_view text);

// `text` with each maximal ill-formed subpart replaced by one U+FFFD, as WHATWG decoders do.
std::string repair_utf8(std::string_view text);

// Code points of well-formed text.
size_t count_code_points(std::string_view text);

}  // namespace lineshaft
