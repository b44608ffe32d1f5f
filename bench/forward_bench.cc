// Speed of the forward pass alone: prompts of 512, 2,048 and 8,192 tokens, single decode, decode of
// 16 sequences, the same behind one shared prompt of 2,048 tokens.
//
// usage: forward_bench MODEL.gguf [threads] [PROFILE] [scalar|avx2|avx512] [f32|f16|bf16|q8]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>

#include "support/forward_harness.h"

namespace lineshaft {
namespace {

using testing::ForwardHarness;

constexpr int32_t kPromptTokens = 512;
constexpr int32_t kDecodeSteps = 64;
constexpr int32_t kSharedTokens = 2048, kSharedSteps = 16;
constexpr int kRepetitions = 5;

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(const char* what, double tokens, std::vector<double> seconds) {
  std::ranges::sort(seconds);
  std::printf("%-24s %8.1f %8.1f %8.1f tok/s (min, median, max)\n", what,
              tokens / seconds.back(), tokens / seconds[seconds.size() / 2],
              tokens / seconds.front());
}

// A prompt of `length` tokens, a multiple of 512, in steps of 512.
void bench_prefill(ForwardHarness& harness, int32_t length, int repetitions) {
  std::vector<TokenId> tokens(kPromptTokens);
  for (int32_t i = 0; i < kPromptTokens; ++i) tokens[static_cast<size_t>(i)] = 100 + i % 150;
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const int sequence = harness.add_sequence(length);
    seconds.push_back(seconds_of([&] {
      while (harness.length(sequence) < length) harness.extend(sequence, tokens, false);
    }));
  }
  report(("prefill " + std::to_string(length)).c_str(), length, seconds);
}

void bench_decode(ForwardHarness& harness, int sequences) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<ForwardHarness::Work> work;
    for (int s = 0; s < sequences; ++s) {
      work.push_back({harness.add_sequence(kDecodeSteps + 16), {s + 1, 50, 60, 70}});
    }
    harness.run_step(work);
    for (auto& w : work) w.tokens = {100};
    seconds.push_back(seconds_of([&] {
      for (int32_t step = 0; step < kDecodeSteps; ++step) harness.run_step(work);
    }));
  }
  report(("decode, sequences: " + std::to_string(sequences)).c_str(),
         static_cast<double>(sequences) * kDecodeSteps, seconds);
}

// Decode behind one prompt that all sequences share, each with a few tokens of its own.
void bench_shared(ForwardHarness& harness, int sequences, int32_t shared) {
  const int root = harness.add_sequence(shared);
  const std::vector<TokenId> tokens(512, 100);
  while (harness.length(root) < shared) {
    const auto count = std::min<size_t>(tokens.size(), shared - harness.length(root));
    harness.extend(root, std::span(tokens).first(count), false);
  }
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<ForwardHarness::Work> work;
    for (int s = 0; s < sequences; ++s) {
      work.push_back({harness.fork(root, shared, shared + kSharedSteps + 16), {s + 1, 50, 60}});
    }
    harness.run_step(work);
    for (auto& w : work) w.tokens = {100};
    seconds.push_back(seconds_of([&] {
      for (int32_t step = 0; step < kSharedSteps; ++step) harness.run_step(work);
    }));
  }
  report((std::to_string(sequences) + " behind a shared " + std::to_string(shared)).c_str(),
         static_cast<double>(sequences) * kSharedSteps, seconds);
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: forward_bench MODEL.gguf [threads] [profile] [isa] [kv type]\n");
    return 2;
  }
  auto file = model::GgufFile::open(argv[1]);
  if (!file.ok()) {
    std::fprintf(stderr, "%s\n", std::string(message_of(file.status())).c_str());
    return 1;
  }
  const int threads = argc > 2 ? std::max(1, std::atoi(argv[2])) : 2;
  model::ForwardOptions options;
  options.isa = kernels::best_isa();
  for (const auto profile : kernels::kProfiles) {
    if (argc > 3 && std::string_view(argv[3]) == kernels::name_of(profile)) {
      options.profile = profile;
    }
  }
  for (const auto isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512}) {
    if (argc > 4 && std::string_view(argv[4]) == kernels::name_of(isa) && kernels::cpu_has(isa)) {
      options.isa = isa;
    }
  }
  for (const auto type : kernels::kKvTypes) {
    if (argc > 5 && std::string_view(argv[5]) == kernels::name_of(type)) options.kv_type = type;
  }
  std::shared_ptr<const model::Weights> weights;
  const double load = seconds_of([&] { weights = testing::load_weights(*file); });
  std::printf("%s, %s, %s, %d threads; loaded in %.3f s\n", weights->spec().name.c_str(),
              std::string(kernels::name_of(options.profile)).c_str(),
              std::string(kernels::name_of(options.isa)).c_str(), threads, load);
  ForwardHarness harness(weights, options, threads);
  bench_prefill(harness, 512, kRepetitions);
  bench_prefill(harness, 2048, kRepetitions);
  bench_prefill(harness, 8192, 1);
  for (const int sequences : {1, 16}) bench_decode(harness, sequences);
  bench_shared(harness, 16, kSharedTokens);
  return 0;
}

}  // namespace
}  // namespace lineshaft

int main(int argc, char** argv) { return lineshaft::run(argc, argv); }
