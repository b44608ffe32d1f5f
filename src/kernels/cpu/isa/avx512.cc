// The kernels' table for avx512. All code is in the body headers; flags come from CMakeLists.txt.
#define LS_TARGET avx512
#define LS_TARGET_AVX512
#define LS_TARGET_ISA Isa::kAvx512
#include "kernels/cpu/table_body.h"
