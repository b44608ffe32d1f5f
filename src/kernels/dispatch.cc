#include "kernels/dispatch.h"

#include <cpuid.h>

#include "base/check.h"

namespace lineshaft::kernels {
namespace {

// CPUID and, through the compiler's library, XGETBV: the OS must save the registers too.
Isa detect() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!avx2) return Isa::kScalar;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
}

}  // namespace

Isa best_isa() {
  static const Isa best = detect();
  return best;
}

bool cpu_has(Isa isa) { return isa <= best_isa(); }

const Kernels& kernels_for(Isa isa) {
  LS_CHECK(cpu_has(isa), "this CPU lacks instruction set {}", static_cast<int>(isa));
  switch (isa) {
    case Isa::kAvx512:
      return avx512::table();
    case Isa::kAvx2:
      return avx2::table();
    case Isa::kScalar:
      break;
  }
  return scalar::table();
}

}  // namespace lineshaft::kernels
