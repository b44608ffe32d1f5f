// Time to choose one token from a row of logits, by vocabulary, shape of the row and parameters.
#include <benchmark/benchmark.h>

#include <vector>

#include "decoding/gumbel.h"
#include "decoding/logprobs.h"
#include "decoding/sampler.h"

namespace lineshaft::decoding {
namespace {

const kernels::Kernels& best_kernels() { return kernels::kernels_for(kernels::best_isa()); }

// Logistic logits with a likely token: spread 3 is near what trained models give, 0.5 is nearly
// flat (the worst case for top-p).
std::vector<float> row_of(int64_t vocab, double spread) {
  std::vector<float> row(static_cast<size_t>(vocab));
  const NoiseRow noise(9, 0, 0);
  for (int64_t i = 0; i < vocab; ++i) {
    const auto t = static_cast<TokenId>(2 * i);
    row[static_cast<size_t>(i)] =
        static_cast<float>((noise.noise(t) - noise.noise(t + 1)) * spread * 0.55);
  }
  row[5] += static_cast<float>(5 * spread);
  return row;
}

void sample(benchmark::State& state, const SamplingParams& params) {
  const auto row = row_of(state.range(0), static_cast<double>(state.range(1)) / 10.0);
  Sampler sampler(best_kernels(), static_cast<int32_t>(state.range(0)));
  const TokenCounts counts;
  int32_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample(row, params, counts, 0, position++));
  }
}

SamplingParams params_of(float temperature, int32_t top_k, float top_p, float min_p) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

void rows(benchmark::internal::Benchmark* bench) {
  bench->ArgsProduct({{49'152, 262'144}, {5, 30}})->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(sample, greedy, params_of(0.0f, 0, 1.0f, 0.0f))->Apply(rows);
BENCHMARK_CAPTURE(sample, temperature_1, params_of(1.0f, 0, 1.0f, 0.0f))->Apply(rows);
BENCHMARK_CAPTURE(sample, top_k_40, params_of(1.0f, 40, 1.0f, 0.0f))->Apply(rows);
BENCHMARK_CAPTURE(sample, top_p_95, params_of(1.0f, 0, 0.95f, 0.0f))->Apply(rows);
BENCHMARK_CAPTURE(sample, hot_top_p_999, params_of(2.0f, 0, 0.999f, 0.0f))->Apply(rows);
BENCHMARK_CAPTURE(sample, min_p_05, params_of(1.0f, 0, 1.0f, 0.05f))->Apply(rows);

void logprobs_20(benchmark::State& state) {
  const auto row = row_of(state.range(0), static_cast<double>(state.range(1)) / 10.0);
  for (auto _ : state) benchmark::DoNotOptimize(token_logprobs(best_kernels(), row, 5, 20));
}
BENCHMARK(logprobs_20)->Apply(rows);

}  // namespace
}  // namespace lineshaft::decoding

BENCHMARK_MAIN();
