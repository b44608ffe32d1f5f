// e^x for sixteen lanes. Maximal error 2 ulp; e^-inf = 0, results below 2^-126 are 0, NaN stays.
#pragma once

#include "kernels/simd/exp_constants.h"
#include "kernels/simd/f32x16.h"

namespace lineshaft::kernels::LS_TARGET {

// Equal to exp_f32 (backend.h) in every lane, bit for bit.
LS_INLINE f32x16 exp(f32x16 x) {
  const f32x16 magic = set(kExpMagic);
  const f32x16 t = fma(x, set(kExpLog2e), magic);
  const f32x16 n = sub(t, magic);
  f32x16 r = fma(n, set(-kExpLn2High), x);
  r = fma(n, set(-kExpLn2Low), r);
  f32x16 p = fma(set(kExpC6), r, set(kExpC5));
  p = fma(p, r, set(kExpC4));
  p = fma(p, r, set(kExpC3));
  p = fma(p, r, set(kExpC2));
  p = fma(p, r, set(1.0f));
  p = fma(p, r, set(1.0f));
  p = add_exponent(p, t);
  p = select(less(x, set(kExpUnderflow)), set(0.0f), p);
  // Beyond the range: x + inf is infinity, and NaN for NaN.
  return select(less(x, set(kExpOverflow)), p, add(x, set(__builtin_inff())));
}

}  // namespace lineshaft::kernels::LS_TARGET
