#include "recipe/dialect/images.h"

#include <algorithm>
#include <array>

#include "recipe/dialect/tools.h"

namespace lineshaft::recipe {
namespace {

constexpr size_t kUrlMax = 8192;
constexpr std::array<std::string_view, 5> kFormats = {"image/png", "image/jpeg", "image/jpg",
                                                      "image/gif", "image/webp"};

Status check_data_url(std::string_view url, std::string_view path) {
  const size_t comma = url.find(',');
  const std::string_view head = url.substr(0, comma);
  if (comma == std::string_view::npos || !head.ends_with(";base64")) {
    return request_error(path, "{}: Unsupported image_url format", path);
  }
  const std::string_view format = head.substr(0, head.find(';'));
  if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end()) {
    return request_error(path, "{}: You have uploaded an unsupported image. Please make sure your "
                         "image is valid and has one of the following formats: webp, png, jpeg, "
                         "and gif.", path);
  }
  if (!is_base64(url.substr(comma + 1))) {
    return request_error(path, "{}: base64 decode error", path);
  }
  return ok_status();
}

}  // namespace

bool is_base64(std::string_view text) {
  if (text.size() % 4 != 0) return false;
  while (text.ends_with('=') && text.size() % 4 != 2) text.remove_suffix(1);
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           c == '+' || c == '/';
  });
}

Status check_image_url(std::string_view url, std::string_view path) {
  if (url.starts_with("data:")) return check_data_url(url.substr(5), path);
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return request_error(path, "{}: Unsupported image_url format", path);
  }
  if (url.size() > kUrlMax) {
    return request_error(path, "{}.image_url.url[0]: image_url.url external link length {} too "
                         "long, max link length {}. Consider passing file data directly with "
                         "base64 data url instead.", path, url.size(), kUrlMax);
  }
  return ok_status();
}

}  // namespace lineshaft::recipe
