// Exponential and logarithm in double from +, -, *, / only: equal bits on every machine, where
// libm's differ between versions and CPUs. For single values; kernels do whole rows, in float.
#pragma once

namespace lineshaft::decoding {

// Natural logarithm of a positive normal double, within a few 1e-16 relative to max(|ln x|, 1).
double ln(double x);

// 2 atanh(s) = ln((1 + s) / (1 - s)) for |s| <= 0.172, to the last few bits.
double two_atanh(double s);

// e^x for x in [-700, 700], relative error below 1e-12.
double exp(double x);

}  // namespace lineshaft::decoding
