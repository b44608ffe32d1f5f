// The kernels' table for scalar. All code is in the body headers; flags come from CMakeLists.txt.
#define LS_TARGET scalar
#define LS_TARGET_SCALAR
#define LS_TARGET_ISA Isa::kScalar
#include "kernels/cpu/table_body.h"
