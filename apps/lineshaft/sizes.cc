#include "lineshaft/sizes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace lineshaft::app {

StatusOr<int64_t> parse_size(std::string_view text) {
  if (text == "auto") return 0;
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value,
                                            std::chars_format::fixed);
  if (error != std::errc() || value < 0 || !std::isfinite(value)) {
    return invalid_argument("'{}' is no size; write for example 4096, 64k or 8GiB", text);
  }
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  double factor = 1.0;
  if (!unit.empty() && unit != "b") {
    const size_t power = std::string_view("kmgt").find(unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) {
      return invalid_argument("'{}' has no known unit; use k, M, G, T, kB, KiB, …", text);
    }
    factor = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  if (value * factor > 0x1p62) return out_of_range("'{}' is too large", text);
  return static_cast<int64_t>(value * factor);
}

int edit_distance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<int> table((a.size() + 1) * columns);
  const auto at = [&](size_t i, size_t j) -> int& { return table[i * columns + j]; };
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = static_cast<int>(i + j);
        continue;
      }
      const int substitution = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::string nearest(std::string_view text, const std::vector<std::string>& names) {
  std::string best;
  int best_distance = std::max(1, static_cast<int>(text.size()) / 3) + 1;
  for (const std::string& name : names) {
    const int distance = edit_distance(text, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace lineshaft::app
