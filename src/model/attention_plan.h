// AttentionPlan: how the attention of one step is cut into pieces that ranks take as they get free.
//
// Sequences that decode one row each and begin with the same KV blocks (one system prompt, many
// users) form a group whose common positions are read once for several of them. A cut never
// changes a bit (docs/numerics.md, N2 and N4). Knows blocks by address only; runs nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "core/model_spec.h"
#include "kernels/backend.h"
#include "model/forward_batch.h"

namespace lineshaft::model {

// A piece of work on AttentionPlan::sequences(). shared == 0: queries of one sequence, numbered as
// for Kernels::attention. Else those of `kv_head` of a group that begins at `sequence`, as for
// Kernels::attention_shared.
struct AttentionChunk {
  int32_t sequence = 0;
  int32_t shared = 0;
  int32_t kv_head = 0;
  Range queries;
  bool wanted = false;  // has rows whose logits are wanted
};

// The rows of the step's queries and results.
struct AttentionRows {
  const float* q = nullptr;
  int64_t q_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};

class AttentionPlan {
 public:
  // Room for steps of `rows_max` rows; plan() then allocates nothing.
  AttentionPlan(const ModelSpec& spec, int32_t block_tokens, int32_t rows_max, int thread_count);

  // `batch` must outlive the use of the plan. logit_runs: rows whose logits are wanted, ascending.
  void plan(const ForwardBatch& batch, const AttentionRows& rows,
            std::span<const Range> logit_runs);

  std::span<const AttentionChunk> chunks() const { return chunks_; }
  // The batch's sequences, those of a group side by side; and the first row of each.
  const kernels::AttentionSequence& sequence(int32_t i) const {
    return sequences_[static_cast<size_t>(i)];
  }
  int32_t first_row(int32_t i) const { return first_rows_[static_cast<size_t>(i)]; }

 private:
  void add_sequence(const ForwardBatch& batch, const AttentionRows& rows, int32_t index);
  int32_t shared_positions(const ForwardBatch& batch, int32_t a, int32_t b) const;
  void plan_group(const ForwardBatch& batch, const AttentionRows& rows, std::span<int32_t> members,
                  int32_t shared);
  void plan_decodes(const ForwardBatch& batch, const AttentionRows& rows);
  void plan_sequence(int32_t i, bool few);
  bool wants_logits(Range rows) const;

  int32_t heads_, kv_heads_, block_tokens_;
  int thread_count_;
  std::span<const Range> logit_runs_;
  std::vector<AttentionChunk> chunks_;
  std::vector<kernels::AttentionSequence> sequences_;
  std::vector<int32_t> first_rows_;
  std::vector<int32_t> decodes_;  // sequences of one row, by their blocks
};

}  // namespace lineshaft::model
