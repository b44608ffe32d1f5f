// Makes GGUF files in memory for tests: any metadata and tensors, and whole tiny models.
//
// Writes what it is told, also what is wrong, so that readers can be tried on it. Not a converter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "core/model_spec.h"
#include "kernels/types.h"
#include "model/gguf.h"

namespace lineshaft::testing {

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;   // of tensor data; written as a key only by set_u32

  void set_u32(std::string_view key, uint32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, const std::vector<std::string>& values);
  void set_i32s(std::string_view key, const std::vector<int32_t>& values);
  void set_f32s(std::string_view key, const std::vector<float>& values);

  // dims[0] is the row length; data.size() is the tensor's bytes.
  void add_tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t ggml_type,
                  std::vector<std::byte> data);

  // The whole file.
  std::vector<std::byte> bytes() const;

 private:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    std::vector<std::byte> data;
  };
  void set(std::string_view key, uint32_t type, std::vector<std::byte> value);

  std::map<std::string, std::vector<std::byte>> entries_;  // type and value, as in the file
  std::vector<Tensor> tensors_;
};

// `rows` x `k` random weights of `type`, about N(0, scale^2) in size; every block is valid.
std::vector<std::byte> random_weights(kernels::WeightType type, int64_t rows, int64_t k,
                                      float scale, RngKey key);

// A random model that fits a test: small in every direction, uneven where a family allows it.
struct TinyModel {
  ModelFamily family = ModelFamily::kLlama;
  kernels::WeightType type = kernels::WeightType::kF32;  // of all matrices
  uint64_t seed = 1;
  int32_t layers = 2;
  int32_t hidden = 64;      // a multiple of the type's block
  int32_t heads = 6;
  int32_t kv_heads = 2;
  int32_t head_dim = 32;
  int32_t ffn = 96;         // a multiple of the type's block
  int32_t context = 4096;
  int32_t window = 24;      // gemma3
  bool tied = true;
  bool rope_factors = false;  // llama
};

// A model of this family and format with sizes that the format's blocks allow.
TinyModel tiny_model(ModelFamily family, kernels::WeightType type, uint64_t seed);

// The file of a tiny model. Its vocabulary is a byte-level BPE ("gpt2", pre-tokenizer "smollm"):
// <|endoftext|> (0), <|im_start|> (1, BOS), <|im_end|> (2, EOS), the 256 bytes (3 to 258) and a few
// merges; the ids after them are unused tokens.
inline constexpr int32_t kTinyVocab = 300;
std::vector<std::byte> tiny_gguf(const TinyModel& model);

// The same, parsed; owns the bytes.
std::shared_ptr<const model::GgufFile> tiny_file(const TinyModel& model);

}  // namespace lineshaft::testing
