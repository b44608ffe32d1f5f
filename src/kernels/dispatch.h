// The tables of cpu/isa, by name: what dispatch.cc chooses from. For nobody else.
#pragma once

#include "kernels/backend.h"

namespace lineshaft::kernels {
namespace scalar {
const Kernels& table();
}
namespace avx2 {
const Kernels& table();
}
namespace avx512 {
const Kernels& table();
}
}  // namespace lineshaft::kernels
