// Writes the fuzzer's seeds: small valid GGUF files of every family. usage: gguf_seeds FOLDER
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/gguf_writer.h"

int main(int argc, char** argv) {
  using namespace lineshaft;
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const auto family : {ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3,
                            ModelFamily::kGemma3}) {
    auto model = testing::tiny_model(family, kernels::WeightType::kQ4_0, 1);
    model.layers = 1;
    model.hidden = 32;
    model.heads = 2;
    model.kv_heads = 1;
    model.head_dim = 16;
    model.ffn = 32;
    const auto bytes = testing::tiny_gguf(model);
    std::ofstream out(folder / (std::to_string(static_cast<int>(family)) + ".gguf"),
                      std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!out) return 1;
  }
  return 0;
}
