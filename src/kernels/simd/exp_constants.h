// The numbers of e^x in f32, shared by the vector form (simd/exp.h) and the one-value form.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 (c2 + c3 r + … + c6 r^4), relative error
// 3.1e-9 before rounding (own Remez fit); then n is added to the exponent.
#pragma once

namespace lineshaft::kernels {

inline constexpr float kExpLog2e = 1.44269502f;
// 1.5 * 2^23: adding it rounds to the nearest integer and leaves that in the low mantissa bits.
inline constexpr float kExpMagic = 12582912.0f;
// ln 2 in two parts; the first has 15 bits, so n * high is exact.
inline constexpr float kExpLn2High = 0.693145752f;
inline constexpr float kExpLn2Low = 1.42860677e-06f;
inline constexpr float kExpC2 = 0.49999994f;
inline constexpr float kExpC3 = 0.166665196f;
inline constexpr float kExpC4 = 0.0416683927f;
inline constexpr float kExpC5 = 0.00836877897f;
inline constexpr float kExpC6 = 0.00138144707f;
// The first float above 128 ln 2: from here on the result is infinity.
inline constexpr float kExpOverflow = 88.7228394f;
// The first float above -126 ln 2: below it the result would be denormal and is 0.
inline constexpr float kExpUnderflow = -87.3365402f;

}  // namespace lineshaft::kernels
