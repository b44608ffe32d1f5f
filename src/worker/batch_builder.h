// Batch builder: a StepPlan and the sequences' contents become the flat arrays of a forward pass.
//
// Fills in the tokens that a plan only names by place, and leaves out the work of sequences that
// ended meanwhile. Decides nothing; a plan that does not fit the contents is our bug (a CHECK).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/step_plan.h"
#include "kv/arena.h"
#include "model/forward.h"
#include "model/forward_batch.h"
#include "worker/seq_runtime.h"

namespace lineshaft::worker {

using SeqTable = std::unordered_map<uint64_t, SeqRuntime>;  // by SeqId::value

// A row of logits to sample from: row `i` of the forward pass belongs to sample_rows[i].
struct SampleRow {
  int32_t work = 0;             // index into StepPlan::work
  SeqId id;
  SeqRuntime* seq = nullptr;
};

// What a step is made of after the builder; kept and refilled, so that steps allocate nothing.
struct BuiltStep {
  model::ForwardBatch batch;
  std::vector<SampleRow> sample_rows;
  std::vector<bool> skipped;    // by index into StepPlan::work
};

// Room for every step within `options` whose sequences have at most `context_tokens` positions,
// up to a bound on the memory of block tables; beyond it a step may have to allocate once.
void reserve(const model::ForwardOptions& options, int32_t context_tokens, BuiltStep* out);

void build_step(const StepPlan& plan, SeqTable& seqs, const kv::KvArena& arena, BuiltStep& out);

}  // namespace lineshaft::worker
