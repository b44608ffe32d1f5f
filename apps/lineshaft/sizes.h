// Sizes with units, and near misses of names: small text helpers of the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lineshaft::app {

// "8GiB", "64k", "512", "2.5M", "auto" (0). k, M, G, T and KiB… count in 1024, kB, MB… in 1000.
// kInvalidArgument for anything else, kOutOfRange beyond 2^62.
StatusOr<int64_t> parse_size(std::string_view text);

// Insertions, deletions, substitutions and swaps of neighbours between the two.
int edit_distance(std::string_view a, std::string_view b);

// The name nearest to `text`, or "" when none is near enough to be meant.
std::string nearest(std::string_view text, const std::vector<std::string>& names);

}  // namespace lineshaft::app
