// Megabytes of text a second through encode, on one thread: English-like text, code-like text, CJK
// and one long word. Models by environment: LINESHAFT_TOKENIZERS (tests/golden/tokenizer/fetch).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {
namespace {

constexpr size_t kTextBytes = 1 << 20;

std::string repeat_to(std::string_view text, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += text;
  return out;
}

// The file that LINESHAFT_BENCH_TEXT names, or a built-in paragraph, repeated to one mebibyte.
std::string english() {
  std::string text =
      "The engine serves many readers at once, and each of them sees the same answer that a lone "
      "reader would have seen; nothing about the company changes a single word. \n\n";
  if (const char* path = std::getenv("LINESHAFT_BENCH_TEXT")) {
    std::ifstream file(path);
    std::ostringstream content;
    content << file.rdbuf();
    if (!content.view().empty()) text = content.str();
  }
  return repeat_to(text, kTextBytes);
}

void bench_encode(benchmark::State& state, const std::string& name, const std::string& text) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) {
    state.SkipWithError("LINESHAFT_TOKENIZERS is not set");
    return;
  }
  const auto tokenizer = tokenizer_from_json_file(std::string(folder) + "/" + name + ".json");
  if (!tokenizer.ok()) {
    state.SkipWithError(std::string(message_of(tokenizer.status())).c_str());
    return;
  }
  size_t tokens = 0;
  for (auto _ : state) tokens = (*tokenizer)->encode(text, Tokenizer::Mode::kPlain).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] =
      static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void register_all() {
  const std::pair<const char*, std::string> texts[] = {
      {"english", english()},
      {"message", english().substr(0, 400)},
      {"cjk", repeat_to("我们每天都在学习新的知识，今天的天气很好。", kTextBytes)},
      {"one_word", std::string(kTextBytes, 'a')},
      {"spaces", std::string(kTextBytes, ' ')},
  };
  for (const char* name : {"qwen3", "llama3", "deepseek_v4", "gemma3"}) {
    for (const auto& [kind, text] : texts) {
      benchmark::RegisterBenchmark((std::string(name) + "/" + kind).c_str(),
                                   [name = std::string(name), text = text](auto& state) {
                                     bench_encode(state, name, text);
                                   })
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace lineshaft::recipe

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  lineshaft::recipe::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
