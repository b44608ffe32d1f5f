#include "decoding/constraint/decimal.h"

#include <algorithm>

namespace lineshaft::decoding {
namespace {

// Both mantissas at the smaller exponent, which is returned.
int align(const Decimal& a, const Decimal& b, BigInt& ma, BigInt& mb) {
  const int exponent = std::min(a.exponent, b.exponent);
  ma = a.mantissa;
  mb = b.mantissa;
  if (a.exponent > exponent) ma *= power_of_ten(a.exponent - exponent);
  if (b.exponent > exponent) mb *= power_of_ten(b.exponent - exponent);
  return exponent;
}

}  // namespace

BigInt power_of_ten(int exponent) {
  return boost::multiprecision::pow(BigInt(10), static_cast<unsigned>(exponent));
}

Decimal parse_decimal(std::string_view text) {
  Decimal out;
  const bool negative = !text.empty() && text[0] == '-';
  bool fraction = false;
  std::string digits;
  size_t at = negative ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    if (!digits.empty() || text[at] != '0') digits += text[at];
    if (fraction) --out.exponent;
  }
  if (!digits.empty()) out.mantissa = BigInt(digits);
  if (negative) out.mantissa = -out.mantissa;
  if (at < text.size()) {
    ++at;
    bool minus = false;
    int exponent = 0;
    for (; at < text.size(); ++at) {
      if (text[at] == '-') minus = true;
      if (text[at] >= '0' && text[at] <= '9') {
        exponent = std::min(exponent * 10 + (text[at] - '0'), 9999);
      }
    }
    out.exponent += minus ? -exponent : exponent;
  }
  if (out.mantissa == 0) out.exponent = 0;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  BigInt ma;
  BigInt mb;
  align(a, b, ma, mb);
  return ma < mb ? -1 : ma > mb ? 1 : 0;
}

Decimal add(const Decimal& a, const Decimal& b) {
  BigInt ma;
  BigInt mb;
  const int exponent = align(a, b, ma, mb);
  return {ma + mb, exponent};
}

bool is_multiple(const Decimal& a, const Decimal& step) {
  BigInt ma;
  BigInt ms;
  align(a, step, ma, ms);
  return ma % ms == 0;
}

Decimal ceil_multiple(const Decimal& a, const Decimal& step) {
  BigInt ma;
  BigInt ms;
  const int exponent = align(a, step, ma, ms);
  BigInt quotient = ma / ms;  // towards zero
  if (ma % ms > 0) ++quotient;
  return {quotient * ms, exponent};
}

Decimal least_common_multiple(const Decimal& a, const Decimal& b) {
  BigInt ma;
  BigInt mb;
  const int exponent = align(a, b, ma, mb);
  return {boost::multiprecision::lcm(ma, mb), exponent};
}

Decimal negate(Decimal a) {
  a.mantissa = -a.mantissa;
  return a;
}

}  // namespace lineshaft::decoding
