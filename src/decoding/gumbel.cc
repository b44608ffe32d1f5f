#include "decoding/gumbel.h"

#include "decoding/math.h"

namespace lineshaft::decoding {

double gumbel(uint64_t bits) {
  // w = 1 - u, in [2^-53, 1 - 2^-53], exact. The noise that wins comes from small w: the
  // exponential variable -ln(1 - w) is taken by a form that keeps its relative precision there.
  const double w = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  const double exponential = w < 0.25 ? two_atanh(w / (2.0 - w)) : -ln(1.0 - w);
  return -ln(exponential);
}

}  // namespace lineshaft::decoding
