// Helpers of this room's tests: instruction sets of this machine and seeded random data.
#pragma once

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/backend.h"

namespace lineshaft::kernels {

inline std::vector<Isa> machine_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (cpu_has(isa)) isas.push_back(isa);
  }
  return isas;
}

// n floats, uniform in [-range, range).
inline std::vector<float> random_floats(RngKey key, size_t n, float range) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const float unit = static_cast<float>(key.bits(i) >> 40) * 0x1p-24f;
    out[i] = (2.0f * unit - 1.0f) * range;
  }
  return out;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace lineshaft::kernels
