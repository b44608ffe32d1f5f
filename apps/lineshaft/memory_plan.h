// Memory plan: what a model with these settings needs, term by term, before anything is loaded.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "core/model_spec.h"
#include "lineshaft/config.h"
#include "lineshaft/machine.h"
#include "model/forward.h"
#include "model/gguf.h"

namespace lineshaft::app {

struct MemoryPlan {
  int64_t weights_bytes = 0;      // packed
  int64_t embedding_bytes = 0;    // mapped from the file and read as used
  int64_t activation_bytes = 0;
  int64_t kv_block_bytes = 0;
  int32_t kv_blocks = 0;
  int32_t context_tokens = 0;     // of one sequence
  int32_t context_model = 0;      // what the model was trained for
  bool context_lowered = false;   // below what the model could do, as memory is short

  int64_t kv_bytes() const { return kv_block_bytes * kv_blocks; }
  int64_t kv_tokens(int block_tokens) const { return int64_t{kv_blocks} * block_tokens; }
  int64_t total_bytes() const {
    return weights_bytes + embedding_bytes + activation_bytes + kv_bytes();
  }
};

model::ForwardOptions forward_options(const Config& config);

// Threads that `config` asks for, or one a usable core.
int thread_count(const Config& config);

// Sizes the KV pool: --kv-memory, else room for the larger of two full contexts and 32,768 tokens,
// within half of the memory that the weights leave. Without --max-context the context is the
// model's, or what the pool holds. kOutOfRange: --max-context beyond the model's.
// kResourceExhausted: it does not fit, with the numbers and the flag to set. Also bind_tensors'.
StatusOr<MemoryPlan> plan_memory(const model::GgufFile& file, const ModelSpec& spec,
                                 const Config& config, const MemoryFacts& memory);

}  // namespace lineshaft::app
