// The kernels' table for avx2. All code is in the body headers; flags come from CMakeLists.txt.
#define LS_TARGET avx2
#define LS_TARGET_AVX2
#define LS_TARGET_ISA Isa::kAvx2
#include "kernels/cpu/table_body.h"
