// ModelSpec: the shape of a model as data. Everything derivable is a function of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"

namespace lineshaft {

enum class ModelFamily : uint8_t { kLlama, kQwen2, kQwen3, kGemma3 };

// One attention layer's reach and rotary base.
struct LayerSpec {
  int32_t window = 0;          // 0: all earlier positions; w: the last w including the own
  float rope_base = 10000.0f;  // theta
  float rope_scale = 1.0f;     // positions are multiplied by this (linear scaling: 1/factor)
};

enum class Activation : uint8_t { kSilu, kGeluTanh };

struct ModelSpec {
  std::string name;            // general.name, or the file's stem
  ModelFamily family = ModelFamily::kLlama;
  int32_t layer_count = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;        // divides heads
  int32_t head_dim = 0;        // even, a multiple of 16
  int32_t ffn = 0;
  int32_t vocab = 0;
  int32_t context_max = 0;     // positions the model was trained for
  float norm_epsilon = 1e-5f;
  float attention_scale = 0.0f;    // scores are multiplied by this
  float embedding_scale = 1.0f;    // gemma: sqrt(hidden) rounded as its definition says
  Activation activation = Activation::kSilu;
  int32_t rope_dims = 0;           // leading dimensions of a head that rotate
  bool rope_interleaved = false;   // pairs (2i, 2i+1) as GGUF llama files store; else (i, i+d/2)
  std::vector<float> rope_factors; // optional divisor a frequency (Llama 3 rope_freqs); empty: 1
  bool qkv_bias = false;           // qwen2
  bool qk_norm = false;            // qwen3, gemma3: RMS norm of each head before RoPE
  bool sandwich_norm = false;      // gemma3: norms after attention and after ffn too
  bool tied_output = false;        // the output projection is the embedding
  std::vector<LayerSpec> layers;   // layer_count entries
  Hash128 fingerprint{};           // of the shape and of all weights' bytes or digests

  int32_t q_size() const { return heads * head_dim; }
  int32_t kv_size() const { return kv_heads * head_dim; }
};

}  // namespace lineshaft
