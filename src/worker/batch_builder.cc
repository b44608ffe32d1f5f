#include "worker/batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace lineshaft::worker {
namespace {

void check_work(const StepPlan& plan, const SeqWork& work, const SeqRuntime& seq,
                const KvLayout& layout) {
  const int64_t end = int64_t{work.first} + work.count;
  LS_CHECK(work.first >= 0 && work.count >= 1 && end <= seq.size(),
           "step {}: positions [{}, {}) of sequence {}, which has {} tokens", plan.step.value,
           work.first, end, work.seq.value, seq.size());
  LS_CHECK(work.sample == (end == seq.size()),
           "step {}: sample is {} at position {} of {} of sequence {}", plan.step.value,
           work.sample, end, seq.size(), work.seq.value);
  LS_CHECK(work.blocks_begin >= 0 && work.blocks_count >= 0 &&
               int64_t{work.blocks_begin} + work.blocks_count <=
                   static_cast<int64_t>(plan.blocks.size()),
           "step {}: block table outside the plan", plan.step.value);
  LS_CHECK(end <= int64_t{work.blocks_count} * layout.block_tokens,
           "step {}: sequence {} has {} blocks for {} positions", plan.step.value,
           work.seq.value, work.blocks_count, end);
}

void add_work(const StepPlan& plan, const SeqWork& work, const SeqRuntime& seq,
              const kv::KvArena& arena, model::ForwardBatch& batch) {
  model::ForwardSequence sequence;
  sequence.first_row = static_cast<int32_t>(batch.tokens.size());
  sequence.rows = work.count;
  sequence.first_position = work.first;
  sequence.blocks_begin = static_cast<int32_t>(batch.blocks.size());
  batch.sequences.push_back(sequence);
  const auto tokens = seq.tokens().subspan(static_cast<size_t>(work.first),
                                           static_cast<size_t>(work.count));
  batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
  const int32_t block_tokens = arena.layout().block_tokens;
  const int32_t used = (work.first + work.count + block_tokens - 1) / block_tokens;
  for (int32_t i = 0; i < used; ++i) {
    batch.blocks.push_back(arena.block(plan.blocks[static_cast<size_t>(work.blocks_begin + i)]));
  }
}

}  // namespace

void reserve(const model::ForwardOptions& options, int32_t context_tokens, BuiltStep* out) {
  constexpr int64_t kBlocksMax = 1 << 18;
  const auto rows = static_cast<size_t>(options.step_tokens_max);
  const int64_t per_sequence = context_tokens / options.block_tokens + 1;
  const int64_t blocks = std::min(kBlocksMax, per_sequence * options.step_tokens_max);
  out->batch.tokens.reserve(rows);
  out->batch.sequences.reserve(rows);
  out->batch.blocks.reserve(static_cast<size_t>(blocks));
  out->batch.logit_rows.reserve(static_cast<size_t>(options.logit_rows_max));
  out->sample_rows.reserve(static_cast<size_t>(options.logit_rows_max));
  out->skipped.reserve(rows);
}

void build_step(const StepPlan& plan, SeqTable& seqs, const kv::KvArena& arena, BuiltStep& out) {
  out.batch.clear();
  out.sample_rows.clear();
  out.skipped.assign(plan.work.size(), false);
  for (size_t i = 0; i < plan.work.size(); ++i) {
    const SeqWork& work = plan.work[i];
    const auto at = seqs.find(work.seq.value);
    LS_CHECK(at != seqs.end(), "step {}: sequence {} is unknown", plan.step.value, work.seq.value);
    SeqRuntime& seq = at->second;
    if (seq.ended()) {
      out.skipped[i] = true;
      continue;
    }
    check_work(plan, work, seq, arena.layout());
    add_work(plan, work, seq, arena, out.batch);
    if (!work.sample) continue;
    out.sample_rows.push_back({static_cast<int32_t>(i), work.seq, &seq});
    out.batch.logit_rows.push_back(static_cast<int32_t>(out.batch.tokens.size()) - 1);
  }
}

}  // namespace lineshaft::worker
