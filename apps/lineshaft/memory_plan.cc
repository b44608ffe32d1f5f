#include "lineshaft/memory_plan.h"

#include <algorithm>

#include "lineshaft/terminal.h"
#include "model/weights.h"

namespace lineshaft::app {
namespace {

// A pool below this many blocks schedules nothing useful.
constexpr int64_t kBlocksMin = 2;
constexpr int64_t kPoolTokensDefault = 32'768;

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

Status too_little(const MemoryPlan& plan, const MemoryFacts& memory, const std::string& what,
                  const std::string& flag) {
  return resource_exhausted(
      "{}: weights {}, activations {}, one KV block {}, free memory {}; {}", what,
      bytes_text(plan.weights_bytes + plan.embedding_bytes), bytes_text(plan.activation_bytes),
      bytes_text(plan.kv_block_bytes), bytes_text(memory.available_bytes), flag);
}

// Blocks by the settings, or from free memory. May be fewer than a context needs.
StatusOr<int64_t> pool_blocks(const Config& config, const MemoryPlan& plan, int64_t context,
                              const MemoryFacts& memory) {
  const int64_t block = config.memory.block_tokens;
  const int64_t left = memory.available_bytes - plan.weights_bytes - plan.embedding_bytes -
                       plan.activation_bytes;
  if (config.memory.kv_memory_bytes > 0) {
    const int64_t blocks = config.memory.kv_memory_bytes / plan.kv_block_bytes;
    if (blocks < kBlocksMin) {
      return too_little(plan, memory, "--kv-memory is below two blocks", "raise --kv-memory");
    }
    if (blocks * plan.kv_block_bytes > left) {
      return too_little(plan, memory,
                        "--kv-memory " + bytes_text(config.memory.kv_memory_bytes) +
                            " does not fit beside the model",
                        "lower --kv-memory");
    }
    return std::min<int64_t>(blocks, INT32_MAX);
  }
  const int64_t per_context = (context + block - 1) / block;
  const int64_t wanted = std::max(2 * per_context, kPoolTokensDefault / block);
  const int64_t affordable = left / 2 / plan.kv_block_bytes;
  if (affordable < kBlocksMin) {
    return too_little(plan, memory, "this model does not fit in memory", "use a smaller model");
  }
  return std::min(wanted, affordable);
}

}  // namespace

model::ForwardOptions forward_options(const Config& config) {
  model::ForwardOptions options;
  for (const kernels::Profile profile : kernels::kProfiles) {
    if (config.model.profile == kernels::name_of(profile)) options.profile = profile;
  }
  options.isa = kernels::best_isa();
  if (config.model.kernels == "scalar") options.isa = kernels::Isa::kScalar;
  if (config.model.kernels == "avx2") options.isa = kernels::Isa::kAvx2;
  if (config.model.kernels == "avx512") options.isa = kernels::Isa::kAvx512;
  if (options.profile == kernels::Profile::kCpuF32) options.kv_type = kernels::KvType::kF32;
  for (const kernels::KvType type : kernels::kKvTypes) {
    if (config.model.kv_type == kernels::name_of(type)) options.kv_type = type;
  }
  options.block_tokens = config.memory.block_tokens;
  options.step_tokens_max = config.scheduling.step_tokens_max;
  options.logit_rows_max = config.scheduling.max_seqs;
  return options;
}

int thread_count(const Config& config) {
  return config.model.threads > 0 ? config.model.threads : usable_cores();
}

StatusOr<MemoryPlan> plan_memory(const model::GgufFile& file, const ModelSpec& spec,
                                 const Config& config, const MemoryFacts& memory) {
  MemoryPlan plan;
  LS_ASSIGN_OR_RETURN(const model::ModelTensors tensors, model::bind_tensors(file, spec));
  plan.weights_bytes = model::packed_bytes(tensors);
  plan.embedding_bytes = static_cast<int64_t>(tensors.embedding->bytes);
  const model::ForwardOptions options = forward_options(config);
  plan.activation_bytes = model::activation_bytes(spec, options, thread_count(config));
  plan.kv_block_bytes = model::kv_block_bytes(spec, options.kv_type, options.block_tokens);
  plan.context_model = spec.context_max;
  const int64_t asked = config.memory.max_context;
  if (asked > spec.context_max) {
    return out_of_range("--max-context {} is beyond the {} tokens that {} was trained for", asked,
                        spec.context_max, spec.name);
  }
  const int64_t context = asked > 0 ? asked : spec.context_max;
  LS_ASSIGN_OR_RETURN(const int64_t blocks, pool_blocks(config, plan, context, memory));
  const int64_t pool_tokens = blocks * options.block_tokens;
  if (asked > pool_tokens) {
    return too_little(plan, memory, fmt::format("--max-context {} does not fit", asked),
                      fmt::format("set --max-context {} or less, or --kv-memory {}", pool_tokens,
                                  (asked / options.block_tokens + 1) * plan.kv_block_bytes));
  }
  plan.kv_blocks = static_cast<int32_t>(blocks);
  plan.context_tokens = static_cast<int32_t>(std::min(context, pool_tokens));
  plan.context_lowered = plan.context_tokens < context;
  return plan;
}

}  // namespace lineshaft::app
