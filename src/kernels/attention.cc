#include "kernels/backend.h"
#include "kernels/cpu/attention_scratch.h"

namespace lineshaft::kernels {

namespace {

// Bytes of head_dim elements, with their scale.
int64_t row_bytes(KvType type, int64_t head_dim) {
  switch (type) {
    case KvType::kF32: return 4 * head_dim;
    case KvType::kF16:
    case KvType::kBF16: return 2 * head_dim;
    case KvType::kQ8: return head_dim + 4;
  }
  return 0;
}

}  // namespace

int64_t kv_layer_bytes(const AttentionShape& shape) {
  return 2 * row_bytes(shape.kv_type, shape.head_dim) * shape.kv_heads * shape.block_tokens;
}

int64_t attention_scratch_floats(const AttentionShape&) { return kAttentionScratchFloats; }

}  // namespace lineshaft::kernels
