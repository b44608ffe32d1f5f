#include "kernels/backend.h"
#include "kernels/cpu/attention_scratch.h"

namespace lineshaft::kernels {

int64_t kv_layer_bytes(const AttentionShape& shape) {
  const int64_t element = shape.kv_type == KvType::kF16 ? 2 : 4;
  return 2 * element * shape.kv_heads * shape.block_tokens * shape.head_dim;
}

int64_t attention_scratch_floats(const AttentionShape&) { return kAttentionScratchFloats; }

}  // namespace lineshaft::kernels
