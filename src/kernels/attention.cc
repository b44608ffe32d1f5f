#include "kernels/backend.h"
#include "kernels/cpu/attention_scratch.h"

namespace lineshaft::kernels {

namespace {

// Bytes of K and V of one position and kv head.
int64_t position_bytes(const AttentionShape& shape) {
  switch (shape.kv_type) {
    case KvType::kF32: return int64_t{8} * shape.head_dim;
    case KvType::kF16:
    case KvType::kBF16: return int64_t{4} * shape.head_dim;
    case KvType::kQ8: return int64_t{2} * shape.head_dim + 4 * (key_scales(shape) + 1);
  }
  return 0;
}

}  // namespace

int32_t key_scales(const AttentionShape& shape) {
  return (shape.head_dim + kKeyScaleDims - 1) / kKeyScaleDims;
}

int64_t kv_layer_bytes(const AttentionShape& shape) {
  return position_bytes(shape) * shape.kv_heads * shape.block_tokens;
}

int64_t attention_scratch_floats(const AttentionShape&) { return kAttentionScratchFloats; }

}  // namespace lineshaft::kernels
