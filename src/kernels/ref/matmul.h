// Plain twins of the matrix product and of activation quantising: from the file's own rows, one
// number at a time, in the order of additions that backend.h states. For tests; no speed here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace lineshaft::kernels::ref {

// As Kernels::quantise_row_1 and quantise_row_2.
template <int kDigits>
void quantise_row(const float* x, int64_t k, QuantisedBlock<kDigits>* out);

// y[o] = the int8 form's product of one row of activations (k / 32 blocks) with each of `outputs`
// rows of `weights`, a quantised format as in the file.
template <int kDigits>
void matmul_int8(WeightType type, std::span<const std::byte> weights, int64_t outputs, int64_t k,
                 const QuantisedBlock<kDigits>* x, float* y);

// The f32 form of the same, for any format.
void matmul_f32(WeightType type, std::span<const std::byte> weights, int64_t outputs, int64_t k,
                const float* x, float* y);

// The exact product (up to double rounding) and the sum of the magnitudes of its terms, which
// bounds the rounding errors of any order of additions.
struct ExactSum {
  double value;
  double magnitude;
};
ExactSum dot_f64(WeightType type, const std::byte* row, int64_t k, const float* x);

}  // namespace lineshaft::kernels::ref
