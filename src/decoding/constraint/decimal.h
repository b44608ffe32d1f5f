// Decimal: a number as JSON writes it, exactly. Must not know schemas.
#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <string_view>

namespace lineshaft::decoding {

using BigInt = boost::multiprecision::cpp_int;

// mantissa * 10^exponent; many forms of one number are equal.
struct Decimal {
  BigInt mantissa = 0;
  int exponent = 0;
};

BigInt power_of_ten(int exponent);

// `text` is a JSON number whose exponent has at most four digits.
Decimal parse_decimal(std::string_view text);

// -1, 0 or 1, as a is less than, equal to or greater than b.
int compare(const Decimal& a, const Decimal& b);
Decimal add(const Decimal& a, const Decimal& b);
// step > 0. True when a = k * step for a whole k.
bool is_multiple(const Decimal& a, const Decimal& step);
// The smallest multiple of step (> 0) that is at least a.
Decimal ceil_multiple(const Decimal& a, const Decimal& step);
// The smallest number > 0 that is a multiple of both (both > 0).
Decimal least_common_multiple(const Decimal& a, const Decimal& b);
Decimal negate(Decimal a);

}  // namespace lineshaft::decoding
