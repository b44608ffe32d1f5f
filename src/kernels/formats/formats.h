// Weight formats: one row of blocks as in a GGUF file → f32, the plain definition.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace lineshaft::kernels {

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // round to nearest even; overflow to infinity
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);  // round to nearest even; a NaN stays one, made quiet

// out[i], i in [0, k): the weights of one row. Products d * q and d * q + m are rounded as two f32
// operations, as in the gguf Python package.
void dequantise_row(WeightType type, const std::byte* row, int64_t k, float* out);

}  // namespace lineshaft::kernels
