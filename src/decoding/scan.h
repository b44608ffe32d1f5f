// One look at 64 values of a row at once, to skip stretches in which nothing can matter.
#pragma once

#include <emmintrin.h>

#include <limits>

namespace lineshaft::decoding {

inline constexpr int kScanWidth = 64;

// The largest of x[0 .. 63]; NaN is passed over, -infinity when all are NaN.
inline float largest_of_64(const float* x) {
  const __m128 lowest = _mm_set1_ps(-std::numeric_limits<float>::infinity());
  __m128 a = lowest;
  __m128 b = lowest;
  for (int i = 0; i < kScanWidth; i += 8) {
    // maxps gives its second operand when either is NaN.
    a = _mm_max_ps(_mm_loadu_ps(x + i), a);
    b = _mm_max_ps(_mm_loadu_ps(x + i + 4), b);
  }
  a = _mm_max_ps(a, b);
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
}

}  // namespace lineshaft::decoding
