// Weights: a model's parameters in the form that the kernels read.
//
// Matrices are packed (kernels/packed_matrix.h), vectors are f32, embedding rows are read from the
// mapped file. Immutable after loading. Knows shapes and names of tensors, not what a forward pass
// does with them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/thread_team.h"
#include "core/ids.h"
#include "core/model_spec.h"
#include "kernels/packed_matrix.h"
#include "model/gguf.h"

namespace lineshaft::model {

// The tensors of one layer by role; nullptr: this family has none.
struct LayerTensors {
  const GgufTensor* attention_norm = nullptr;
  const GgufTensor* q = nullptr;
  const GgufTensor* k = nullptr;
  const GgufTensor* v = nullptr;
  const GgufTensor* q_bias = nullptr;
  const GgufTensor* k_bias = nullptr;
  const GgufTensor* v_bias = nullptr;
  const GgufTensor* q_norm = nullptr;
  const GgufTensor* k_norm = nullptr;
  const GgufTensor* output = nullptr;
  const GgufTensor* post_attention_norm = nullptr;
  const GgufTensor* ffn_norm = nullptr;
  const GgufTensor* gate = nullptr;
  const GgufTensor* up = nullptr;
  const GgufTensor* down = nullptr;
  const GgufTensor* post_ffn_norm = nullptr;
};

struct ModelTensors {
  const GgufTensor* embedding = nullptr;
  const GgufTensor* output_norm = nullptr;
  const GgufTensor* output = nullptr;   // the embedding when tied
  std::vector<LayerTensors> layers;
};

// Finds every tensor of the model by name and checks its shape. kDataLoss names a tensor that is
// missing or misshapen; kUnimplemented names one that this family does not have.
StatusOr<ModelTensors> bind_tensors(const GgufFile& file, const ModelSpec& spec);

// Bytes that Weights::load will take for packed matrices (vectors are negligible); for plans that
// are made before anything is loaded.
int64_t packed_bytes(const ModelTensors& tensors);

// One layer's parameters. Vectors that the family does not have are empty.
struct LayerWeights {
  std::vector<float> attention_norm;       // [hidden]
  kernels::PackedMatrix q, k, v;           // [q_size | kv_size, hidden]
  std::vector<float> q_bias, k_bias, v_bias;
  std::vector<float> q_norm, k_norm;       // [head_dim]
  kernels::PackedMatrix output;            // [hidden, q_size]
  std::vector<float> post_attention_norm;  // [hidden]
  std::vector<float> ffn_norm;             // [hidden]
  kernels::PackedMatrix gate, up;          // [ffn, hidden]
  kernels::PackedMatrix down;              // [hidden, ffn]
  std::vector<float> post_ffn_norm;        // [hidden]
};

// Bytes of tensors done, of all; called on the loading thread, rising, last with done == total.
using LoadProgress = std::function<void(uint64_t bytes_done, uint64_t bytes_total)>;

class Weights {
 public:
  // Packs everything with all ranks of `team`, digests every byte of every tensor and lets the
  // mapped pages go (embedding rows come back as they are used). `spec` is load_spec's; the copy
  // inside has its fingerprint set. Costs about a read and a write of the file.
  //
  // `packed_file` (packed_file.h; "": none) replaces packing where it holds this very model, which
  // the digest decides; where it does not, it is written anew, and a failure to write is a warning
  // in the log. Results are equal with and without.
  static StatusOr<std::shared_ptr<const Weights>> load(std::shared_ptr<const GgufFile> file,
                                                       ModelSpec spec, ThreadTeam& team,
                                                       const LoadProgress& progress = {},
                                                       const std::string& packed_file = {});

  const ModelSpec& spec() const { return spec_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const std::vector<float>& output_norm() const { return output_norm_; }
  const kernels::PackedMatrix& output() const { return output_; }  // [vocab, hidden]

  // out[hidden]: the token's embedding as the file has it, unscaled. 0 <= token < vocab.
  void embedding_row(TokenId token, float* out) const;

 private:
  Weights() = default;
  class Loader;
  Status save_packed(const std::string& path) const;

  std::shared_ptr<const GgufFile> file_;
  const GgufTensor* embedding_ = nullptr;
  ModelSpec spec_;
  std::vector<LayerWeights> layers_;
  std::vector<float> output_norm_;
  kernels::PackedMatrix output_;
};

}  // namespace lineshaft::model
