// The plain twins of the vector operations of backend.h: docs/numerics.md in loops, one value at a
// time, no intrinsics and no blocking. Kept for ever; the tables must equal them bit for bit.
#pragma once

#include "kernels/backend.h"

namespace lineshaft::kernels::ref {

// Arguments and results as in Kernels.
void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* out);
void silu_mul(const float* gate, const float* up, int64_t n, float* out);
void gelu_tanh_mul(const float* gate, const float* up, int64_t n, float* out);
void rope(float* x, int32_t heads, int32_t head_dim, int32_t rope_dims, bool interleaved,
          const float* cos, const float* sin);
void store_kv(const AttentionShape& shape, std::byte* block, int32_t slot, const float* k,
              const float* v);
// All queries of the sequence.
void attention(const AttentionShape& shape, const AttentionSequence& sequence);
float log_sum_exp(const float* x, int64_t n);
int64_t argmax(const float* x, int64_t n);

// The stored key and value of a position, as f32: component d of kv head h.
float stored_key(const AttentionShape& shape, const std::byte* block, int32_t slot, int32_t h,
                 int32_t d);
float stored_value(const AttentionShape& shape, const std::byte* block, int32_t slot, int32_t h,
                   int32_t d);

}  // namespace lineshaft::kernels::ref
