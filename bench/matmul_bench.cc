// Matrix products on one thread: GOP/s (2 operations a weight and row) and weight bytes a second,
// by shape, rows, format and instruction set; beside them the machine's own roofs.
//
//   matmul_bench --benchmark_filter='matmul/avx512/int8x2/Q4_1'
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <immintrin.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/backend.h"

namespace lineshaft::kernels {
namespace {

struct Shape {
  int64_t outputs;
  int64_t k;
};

struct Case {
  Isa isa;
  WeightType type;
  int digits;   // of the activations; 0: f32
  Shape shape;
  int64_t m;
};

// Valid blocks of any format: random bytes whose exponent bits of f16 fields are kept small.
std::vector<std::byte> random_rows(WeightType type, int64_t outputs, int64_t k) {
  const WeightTypeInfo& format = info(type);
  std::vector<std::byte> rows(
      static_cast<size_t>(outputs * k / format.block_elements * format.block_bytes));
  const RngKey key(1);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool high_byte = i % 2 == 1;
    rows[i] = static_cast<std::byte>(key.bits(i) & (high_byte ? 0xaf : 0xff));
  }
  return rows;
}

void run_matmul(benchmark::State& state, const Case& c) {
  const auto [outputs, k] = c.shape;
  PackedMatrix w(c.type, outputs, k);
  w.pack_tiles(random_rows(c.type, outputs, k), {0, w.tile_count()});
  std::vector<float> x(static_cast<size_t>(c.m * k)), y(static_cast<size_t>(c.m * outputs));
  const RngKey key(2);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(static_cast<int64_t>(key.bits(i) % 2001) - 1000) * 1e-3f;
  }
  const Kernels& kernels = kernels_for(c.isa);
  std::vector<QuantisedBlock<1>> q1(static_cast<size_t>(c.m * k / 32));
  std::vector<QuantisedBlock<2>> q2(q1.size());
  for (int64_t r = 0; r < c.m; ++r) {
    kernels.quantise_row_1(x.data() + r * k, k, q1.data() + r * k / 32);
    kernels.quantise_row_2(x.data() + r * k, k, q2.data() + r * k / 32);
  }
  const ActivationRows rows{x.data(), k, c.digits == 1 ? q1.data() : nullptr,
                            c.digits == 2 ? q2.data() : nullptr, k};
  for (auto _ : state) {
    kernels.matmul(w, rows, {0, c.m}, {0, w.tile_count()}, y.data(), outputs);
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  const auto times = static_cast<double>(state.iterations());
  state.counters["GOP/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(c.m * outputs * k) * times, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(1e-9 * static_cast<double>(w.bytes()) * times,
                                              benchmark::Counter::kIsRate);
}

// Loops of 1000 rounds over independent chains that live in registers.
__attribute__((target("avx512f,avx512vnni"), noinline)) void vnni_rounds() {
  __m512i acc[12];
  for (int j = 0; j < 12; ++j) acc[j] = _mm512_set1_epi32(j);  // equal chains would be merged
  const __m512i w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(-2);
  for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_dpbusd_epi32(acc[j], w, x);
  }
#pragma GCC unroll 12
  for (int j = 0; j < 12; ++j) asm volatile("" : : "v"(acc[j]));
}

__attribute__((target("avx512f"), noinline)) void fma_rounds() {
  __m512 acc[12];
  for (int j = 0; j < 12; ++j) acc[j] = _mm512_set1_ps(static_cast<float>(j));
  const __m512 w = _mm512_set1_ps(1e-3f);
  for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) acc[j] = _mm512_fmadd_ps(w, w, acc[j]);
  }
#pragma GCC unroll 12
  for (int j = 0; j < 12; ++j) asm volatile("" : : "v"(acc[j]));
}

// vpmaddubsw and a 16-bit addition: the AVX2 form's bound when widening is free.
__attribute__((target("avx2"), noinline)) void maddubs_rounds() {
  __m256i acc[8];
  for (int j = 0; j < 8; ++j) acc[j] = _mm256_set1_epi32(j);
  __m256i w = _mm256_set1_epi8(3);
  const __m256i x = _mm256_set1_epi8(-2);
  for (int i = 0; i < 1000; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      asm volatile("" : "+x"(w));  // keeps the product inside the loop
      acc[j] = _mm256_add_epi16(acc[j], _mm256_maddubs_epi16(w, x));
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) asm volatile("" : : "x"(acc[j]));
}

void run_roof(benchmark::State& state, void (*rounds)(), int operations_a_round) {
  for (auto _ : state) rounds();
  state.counters["GOP/s"] = benchmark::Counter(
      1000e-9 * operations_a_round * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
}

__attribute__((target("avx2"))) void roof_read(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  std::unique_ptr<char[], decltype(&std::free)> data(
      static_cast<char*>(std::aligned_alloc(2 << 20, static_cast<size_t>(bytes))), &std::free);
  std::memset(data.get(), 1, static_cast<size_t>(bytes));
  __m256i acc[4];
  for (__m256i& a : acc) a = _mm256_setzero_si256();
  for (auto _ : state) {
    for (int64_t i = 0; i < bytes; i += 128) {
      const auto* p = reinterpret_cast<const __m256i*>(data.get() + i);
      for (int j = 0; j < 4; ++j) acc[j] = _mm256_xor_si256(acc[j], _mm256_load_si256(p + j));
    }
    for (const __m256i& a : acc) benchmark::DoNotOptimize(a);
  }
  state.counters["GB/s"] = benchmark::Counter(
      1e-9 * static_cast<double>(bytes * state.iterations()), benchmark::Counter::kIsRate);
}

void register_case(const Case& c) {
  constexpr const char* kForms[] = {"f32", "int8x1", "int8x2"};
  const std::string name = fmt::format("matmul/{}/{}/{}/{}x{}x{}", name_of(c.isa),
                                       kForms[c.digits], info(c.type).name, c.m,
                                       c.shape.outputs, c.shape.k);
  benchmark::RegisterBenchmark(name.c_str(),
                               [c](benchmark::State& state) { run_matmul(state, c); })
      ->Unit(benchmark::kMicrosecond);
}

void register_all() {
  if (cpu_has(Isa::kAvx512)) {
    benchmark::RegisterBenchmark("roof/vnni", run_roof, vnni_rounds, 12 * 128);
    benchmark::RegisterBenchmark("roof/fma_avx512", run_roof, fma_rounds, 12 * 32);
  }
  if (cpu_has(Isa::kAvx2)) {
    benchmark::RegisterBenchmark("roof/maddubs_avx2", run_roof, maddubs_rounds, 8 * 64);
    benchmark::RegisterBenchmark("roof/read", roof_read)->Arg(8 << 20)->Arg(256 << 20);
  }
  const Shape shapes[] = {{1536, 576}, {576, 1536}, {49152, 576}, {2048, 640}};
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kScalar}) {
    if (!cpu_has(isa)) continue;
    for (int type = 0; type < kWeightTypeCount; ++type) {
      for (const int digits : {2, 1, 0}) {
        const auto weight_type = static_cast<WeightType>(type);
        const WeightTypeInfo& format = info(weight_type);
        if (digits > 0 && !format.quantised) continue;
        for (Shape shape : shapes) {
          if (shape.k % format.block_elements != 0) shape.k = 768;
          for (const int64_t m : {1, 16, 64, 512}) {
            if (shape.outputs > 4096 && m > 64) continue;
            register_case({isa, weight_type, digits, shape, m});
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lineshaft::kernels

int main(int argc, char** argv) {
  lineshaft::kernels::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
