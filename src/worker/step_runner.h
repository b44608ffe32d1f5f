// StepRunner: carries out one plan at a time: builds the batch, runs the model, samples.
//
// Owns the sequences' contents, the KV arena, the activations and the compute team; everything a
// worker is, without its thread and queue (cpu_worker.h). Runs on the caller's thread, which is
// rank 0 of the team. Executing a plan twice on equal contents gives equal bits. Decides nothing:
// which rows run is the plan's business, and only the ends of answers are found here, for the
// worker knows a token before the next plan runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/thread_team.h"
#include "core/limits.h"
#include "core/step_plan.h"
#include "core/vocab.h"
#include "decoding/logprobs.h"
#include "decoding/sampler.h"
#include "kv/arena.h"
#include "model/forward.h"
#include "model/weights.h"
#include "worker/batch_builder.h"

namespace lineshaft::worker {

// Sees the raw logits ([vocab]) that the token at `position` of `seq` is about to be sampled from.
// For tests (bits of logits from outside); called on the thread that runs the step.
using LogitsObserver =
    std::function<void(SeqId seq, int32_t position, std::span<const float> logits)>;

struct StepRunnerOptions {
  model::ForwardOptions forward;    // step_tokens_max and logit_rows_max bound every plan
  int32_t context_tokens = 0;       // Limits::context_tokens
  int32_t kv_blocks = 0;            // Limits::kv_blocks
  int thread_count = 1;
  LogitsObserver observe_logits;    // empty: nobody looks
};

class StepRunner {
 public:
  // kResourceExhausted: the arena can't be reserved; kInvalidArgument: no blocks.
  static StatusOr<std::unique_ptr<StepRunner>> create(
      std::shared_ptr<const model::Weights> weights, std::shared_ptr<const Vocab> vocab,
      StepRunnerOptions options);

  // One result for each work of the plan, in its order. A row without finite logits ends its
  // sequence with kError. The result carries the plan back. A step in which no sequence starts
  // allocates nothing, if `plan.results` has room and nobody wants log-probs.
  StepResult run(StepPlan plan);

  const StepRunnerOptions& options() const { return options_; }
  const kv::KvArena& arena() const { return arena_; }
  int32_t sequence_count() const { return static_cast<int32_t>(seqs_.size()); }

 private:
  struct Sampled {
    std::optional<TokenId> token;
    decoding::TokenLogprobs logprobs;   // when the request wants them
  };

  StepRunner(std::shared_ptr<const model::Weights> weights, std::shared_ptr<const Vocab> vocab,
             StepRunnerOptions options, kv::KvArena arena);
  void update_sequences(const StepPlan& plan);
  void sample_all();
  Sampled sample(size_t index, decoding::Sampler& sampler);
  void fill(SeqResult& result, SeqRuntime& seq, Sampled& sampled);

  StepRunnerOptions options_;
  std::shared_ptr<const Vocab> vocab_;
  kv::KvArena arena_;
  const kernels::Kernels& kernels_;
  ThreadTeam team_;
  model::Forward forward_;
  std::vector<decoding::Sampler> samplers_;   // one a rank
  SeqTable seqs_;
  BuiltStep step_;
  std::vector<Sampled> sampled_;              // by index into step_.sample_rows
  SystemClock clock_;
};

}  // namespace lineshaft::worker
