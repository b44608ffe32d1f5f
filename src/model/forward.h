// Forward: one step of a decoder-only model: tokens and KV in, KV and logits out.
//
// Owns the activations of a step (allocated once), nothing else. The bits of a row's KV and logits
// depend on the row's own sequence, the weights and the profile only: not on other rows, the way a
// prompt is cut into steps, the number of threads or the instruction set (docs/numerics.md).
// Decides nothing: which rows run is the plan's business.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "kernels/backend.h"
#include "model/activations.h"
#include "model/attention_plan.h"
#include "model/forward_batch.h"
#include "model/weights.h"

namespace lineshaft::model {

struct ForwardOptions {
  kernels::Profile profile = kernels::Profile::kCpuInt8;
  kernels::Isa isa = kernels::Isa::kScalar;
  kernels::KvType kv_type = kernels::KvType::kF16;
  int32_t block_tokens = 128;     // positions of a KV block, a multiple of 16
  int32_t step_tokens_max = 512;  // rows of a step
  int32_t logit_rows_max = 64;    // rows of a step that want logits
};

// A layer's attention as kernels see it. A block holds the layers one after the other, in order.
kernels::AttentionShape attention_shape(const ModelSpec& spec, int32_t layer,
                                        kernels::KvType kv_type, int32_t block_tokens);

// Bytes of a KV block of all layers.
int64_t kv_block_bytes(const ModelSpec& spec, kernels::KvType kv_type, int32_t block_tokens);

// Bytes that a Forward allocates for `options` and a team of `thread_count`.
int64_t activation_bytes(const ModelSpec& spec, const ForwardOptions& options, int thread_count);

class Forward {
 public:
  // `weights` is kept. All memory of later steps is allocated here.
  Forward(std::shared_ptr<const Weights> weights, const ForwardOptions& options,
          int thread_count);
  ~Forward();

  // Computes the batch: writes K and V of every row to its slot, then logits of logit_rows.
  // `team` has thread_count ranks and is the caller's for this call. Rows, positions, tokens and
  // blocks are in range (a CHECK: plans come from us). Allocates nothing.
  void run(ThreadTeam& team, const ForwardBatch& batch);

  // After run: [vocab] logits of row batch.logit_rows[i]; may be written to until the next run.
  float* logits(int64_t i) { return logits_.get() + i * logits_stride_; }

  const ForwardOptions& options() const { return options_; }
  const ModelSpec& spec() const { return weights_->spec(); }

 private:
  // What a layer needs besides its weights, worked out once.
  struct Layer {
    const LayerWeights* weights = nullptr;
    kernels::AttentionShape shape;
    int32_t rope = 0;                  // index into ropes_
    bool quantise_qkv = false;         // the projection's input: any of its matrices is quantised
    bool quantise_output = false;
    bool quantise_ffn = false;
    bool quantise_down = false;
  };
  // One kind of rotation; cos and sin of the step's rows.
  struct Rope {
    float base = 0.0f;
    float scale = 1.0f;
    Buffer<double> inv_freq;
    Buffer<float> cos, sin;            // [step_tokens_max, rope_dims / 2]
  };
  // Rows of a step as ascending ranges.
  using RowRuns = std::span<const Range>;
  // A rank's view of a step: its residual rows, and whether other ranks need them.
  struct Rank {
    int index = 0;
    int count = 1;
    bool shared = false;     // rows are divided among ranks; a barrier makes them visible
    Range rows;
    Residual* residual = nullptr;
    float* scratch = nullptr;
    float* attention_scratch = nullptr;

    Range share_of_tiles(const kernels::PackedMatrix& matrix) const {
      return share_of(matrix.tile_count(), index, count);
    }
  };

  void make_layers();
  int32_t rope_index(const LayerSpec& layer);
  void check(const ThreadTeam& team, const ForwardBatch& batch) const;
  void plan_step(const ForwardBatch& batch);
  void plan_logit_runs(const ForwardBatch& batch);
  Rank rank_view(int rank, int64_t rows);
  bool quantises(const kernels::PackedMatrix& matrix) const;

  void run_rank(ThreadTeam& team, const ForwardBatch& batch, int rank);
  void embed(const Rank& rank, const ForwardBatch& batch);
  void norm_rows(const Rank& rank, const std::vector<float>& weight, bool quantise, RowRuns rows);
  void project_qkv(const Rank& rank, const Layer& layer);
  void prepare_heads(const Rank& rank, const ForwardBatch& batch, const Layer& layer);
  void norm_heads(float* x, int32_t heads, const std::vector<float>& weight) const;
  void attend(const Rank& rank, int32_t layer_index);
  void quantise_heads(const AttentionChunk& chunk);
  void quantise_attended(const Rank& rank, RowRuns rows);
  void add_projected(const Rank& rank, const std::vector<float>& post_norm, RowRuns rows);
  void feed_forward(const Rank& rank, const Layer& layer, RowRuns rows);
  void multiply(const kernels::PackedMatrix& matrix, const RowBuffer& x, Range tiles, RowRuns rows,
                ProductBuffer& y);
  kernels::ActivationRows activations(const kernels::PackedMatrix& matrix,
                                      const RowBuffer& x) const;
  void run_layer(ThreadTeam& team, const ForwardBatch& batch, const Rank& rank, int32_t index);
  void project_logits(ThreadTeam& team, const ForwardBatch& batch, const Rank& rank);

  std::shared_ptr<const Weights> weights_;
  ForwardOptions options_;
  int thread_count_;
  const kernels::Kernels& kernels_;
  std::vector<Layer> layers_;
  std::vector<Rope> ropes_;

  int64_t rows_ = 0;                          // of this step
  std::vector<int32_t> row_sequence_;         // a row's sequence
  std::vector<Range> logit_runs_;             // rows whose logits are wanted
  AttentionPlan attention_plan_;
  std::vector<std::atomic<int32_t>> next_chunk_;  // [layer]

  Residual shared_;
  std::vector<Residual> private_;             // [thread_count]
  std::vector<Buffer<float>> attention_scratch_;
  ProductBuffer q_, k_, v_;                   // [step_tokens_max, q_size | kv_size]
  RowBuffer attended_;                        // [step_tokens_max, q_size]
  ProductBuffer projected_;                   // [step_tokens_max, hidden]
  ProductBuffer gate_, up_;                   // [step_tokens_max, ffn]
  RowBuffer activated_;                       // [step_tokens_max, ffn]
  RowBuffer head_input_;                      // [logit_rows_max, hidden]
  int64_t logits_stride_ = 0;
  Buffer<float> logits_;                      // [logit_rows_max, logits_stride_]
};

}  // namespace lineshaft::model
