// Attention alone, one thread, per instruction set: prefill of 512 rows behind 0, 2,048 and 8,192
// positions and decode of one row behind 2,048, as GFLOP/s (4 * head_dim per query and position)
// and GB/s of K and V read once. Heads as in SmolLM2 (9/3 x 64) and Gemma 3 270M (4/1 x 256).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "kernels/backend.h"

namespace lineshaft::kernels {
namespace {

struct Heads {
  int32_t heads, kv_heads, head_dim;
};

std::vector<float> random_floats(uint64_t seed, int64_t n) {
  std::vector<float> out(static_cast<size_t>(n));
  const RngKey key(seed);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(key.bits(i) >> 40) * 0x1p-23f - 1.0f;
  }
  return out;
}

void run(benchmark::State& state, Isa isa, Heads heads, KvType type, int32_t first, int32_t rows) {
  AttentionShape shape{.heads = heads.heads, .kv_heads = heads.kv_heads,
                       .head_dim = heads.head_dim};
  shape.scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim));
  shape.kv_type = type;
  const int32_t context = first + rows;
  const int32_t count = (context + shape.block_tokens - 1) / shape.block_tokens;
  std::vector<std::byte> memory(static_cast<size_t>(count * kv_layer_bytes(shape)));
  std::vector<const std::byte*> blocks;
  const Kernels& kernels = kernels_for(isa);
  for (int32_t p = 0; p < context; ++p) {
    std::byte* block = memory.data() + p / shape.block_tokens * kv_layer_bytes(shape);
    const auto kv = random_floats(static_cast<uint64_t>(p), 2 * heads.kv_heads * heads.head_dim);
    kernels.store_kv(shape, block, p % shape.block_tokens, kv.data(),
                     kv.data() + heads.kv_heads * heads.head_dim);
    if (p % shape.block_tokens == 0) blocks.push_back(block);
  }
  const int64_t row = int64_t{heads.heads} * heads.head_dim;
  const auto q = random_floats(99, rows * row);
  std::vector<float> out(static_cast<size_t>(rows * row));
  const AttentionSequence sequence{.q = q.data(), .q_stride = row, .out = out.data(),
                                   .out_stride = row, .first = first, .rows = rows,
                                   .blocks = blocks.data()};
  const auto scratch_bytes = static_cast<size_t>(attention_scratch_floats(shape) + 16) * 4;
  const std::unique_ptr<float, decltype(&std::free)> scratch(
      static_cast<float*>(std::aligned_alloc(64, scratch_bytes / 64 * 64)), &std::free);
  for (auto _ : state) {
    kernels.attention(shape, sequence, {0, int64_t{rows} * heads.heads}, scratch.get());
    benchmark::DoNotOptimize(out.data());
  }
  double positions = 0.0;
  for (int32_t r = 0; r < rows; ++r) positions += first + r + 1;
  const auto runs = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(
      runs * 4e-9 * heads.heads * heads.head_dim * positions, benchmark::Counter::kIsRate);
  const double position_bytes = static_cast<double>(kv_layer_bytes(shape)) / shape.block_tokens;
  state.counters["GB/s"] = benchmark::Counter(runs * 1e-9 * position_bytes * context,
                                              benchmark::Counter::kIsRate);
}

void add(Isa isa, Heads heads, KvType type, int32_t first, int32_t rows) {
  const std::string name =
      fmt::format("{}/{}:{}x{}/{}/{}_rows_at_{}", name_of(isa), heads.heads, heads.kv_heads,
                  heads.head_dim, name_of(type), rows, first);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    run(state, isa, heads, type, first, rows);
  })->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace lineshaft::kernels

int main(int argc, char** argv) {
  using namespace lineshaft::kernels;
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kScalar}) {
    if (!cpu_has(isa)) continue;
    for (const Heads heads : {Heads{9, 3, 64}, Heads{4, 1, 256}}) {
      for (const KvType type : kKvTypes) {
        for (const int32_t first : {0, 2048, 8192}) add(isa, heads, type, first, 512);
        add(isa, heads, type, 2047, 1);
        add(isa, heads, type, 65535, 1);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
