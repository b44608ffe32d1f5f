// Images in requests. They are checked, and their places noted; nothing is decoded or fetched.
#pragma once

#include <string_view>

#include "base/status.h"

namespace lineshaft::recipe {

// An image as a URL: http(s) of at most 8192 bytes, or a data URL with base64 of png, jpeg, gif or
// webp. kInvalidArgument, beginning with `path`.
Status check_image_url(std::string_view url, std::string_view path);

// Standard base64 with its padding.
bool is_base64(std::string_view text);

}  // namespace lineshaft::recipe
