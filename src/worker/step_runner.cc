#include "worker/step_runner.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace lineshaft::worker {
namespace {

// From this many rows on, sampling is shared among the ranks: waking them costs about 10 us, and
// the cheapest row (greedy) takes a few.
constexpr size_t kSharedSampleRowsMin = 4;

}  // namespace

StatusOr<std::unique_ptr<StepRunner>> StepRunner::create(
    std::shared_ptr<const model::Weights> weights, std::shared_ptr<const Vocab> vocab,
    StepRunnerOptions options) {
  const model::ForwardOptions& forward = options.forward;
  const KvLayout layout{
      forward.block_tokens,
      model::kv_block_bytes(weights->spec(), forward.kv_type, forward.block_tokens)};
  LS_ASSIGN_OR_RETURN(kv::KvArena arena, kv::KvArena::create(layout, options.kv_blocks));
  return std::unique_ptr<StepRunner>(new StepRunner(std::move(weights), std::move(vocab),
                                                    std::move(options), std::move(arena)));
}

StepRunner::StepRunner(std::shared_ptr<const model::Weights> weights,
                       std::shared_ptr<const Vocab> vocab, StepRunnerOptions options,
                       kv::KvArena arena)
    : options_(std::move(options)),
      vocab_(std::move(vocab)),
      arena_(std::move(arena)),
      kernels_(kernels::kernels_for(options_.forward.isa)),
      team_(options_.thread_count),
      forward_(std::move(weights), options_.forward, options_.thread_count),
      sampled_(static_cast<size_t>(options_.forward.logit_rows_max)) {
  reserve(options_.forward, options_.context_tokens, &step_);
  for (int rank = 0; rank < options_.thread_count; ++rank) {
    samplers_.emplace_back(kernels_, forward_.spec().vocab);
  }
}

StepResult StepRunner::run(StepPlan plan) {
  const Instant begin = clock_.now();
  update_sequences(plan);
  build_step(plan, seqs_, arena_, step_);
  LS_CHECK(step_.batch.tokens.size() <= static_cast<size_t>(options_.forward.step_tokens_max) &&
               step_.sample_rows.size() <= sampled_.size(),
           "step {}: {} rows, {} to sample", plan.step.value, step_.batch.tokens.size(),
           step_.sample_rows.size());
  if (!step_.batch.tokens.empty()) forward_.run(team_, step_.batch);
  sample_all();

  StepResult out;
  out.step = plan.step;
  out.results = std::move(plan.results);
  out.results.clear();
  out.results.resize(plan.work.size());
  for (size_t i = 0; i < plan.work.size(); ++i) {
    out.results[i].seq = plan.work[i].seq;
    out.results[i].skipped = step_.skipped[i];
  }
  for (size_t i = 0; i < step_.sample_rows.size(); ++i) {
    const SampleRow& row = step_.sample_rows[i];
    fill(out.results[static_cast<size_t>(row.work)], *row.seq, sampled_[i]);
  }
  out.plan = std::move(plan);
  out.compute = clock_.now() - begin;
  return out;
}

void StepRunner::update_sequences(const StepPlan& plan) {
  for (const SeqStart& start : plan.starts) {
    const bool added =
        seqs_.try_emplace(start.seq.value, start, options_.context_tokens).second;
    LS_CHECK(added, "step {}: sequence {} starts twice", plan.step.value, start.seq.value);
  }
  for (const SeqId seq : plan.ends) seqs_.erase(seq.value);
}

void StepRunner::sample_all() {
  const size_t count = step_.sample_rows.size();
  if (options_.observe_logits) {
    for (size_t i = 0; i < count; ++i) {
      const SampleRow& row = step_.sample_rows[i];
      const std::span<const float> logits(forward_.logits(static_cast<int64_t>(i)),
                                          static_cast<size_t>(forward_.spec().vocab));
      options_.observe_logits(row.id, row.seq->size(), logits);
    }
  }
  if (count < kSharedSampleRowsMin || team_.count() == 1) {
    for (size_t i = 0; i < count; ++i) sampled_[i] = sample(i, samplers_[0]);
    return;
  }
  team_.run([&](int rank) {
    for (auto i = static_cast<size_t>(rank); i < count; i += static_cast<size_t>(team_.count())) {
      sampled_[i] = sample(i, samplers_[static_cast<size_t>(rank)]);
    }
  });
}

StepRunner::Sampled StepRunner::sample(size_t index, decoding::Sampler& sampler) {
  const SeqRuntime& seq = *step_.sample_rows[index].seq;
  const std::span<const float> logits(forward_.logits(static_cast<int64_t>(index)),
                                      static_cast<size_t>(forward_.spec().vocab));
  Sampled out;
  out.token = sampler.sample(logits, seq.params(), seq.counts(), seq.choice(), seq.size());
  if (out.token && seq.params().top_logprobs >= 0) {
    out.logprobs = decoding::token_logprobs(kernels_, logits, *out.token,
                                            seq.params().top_logprobs);
    if (!std::isfinite(out.logprobs.chosen)) out.token.reset();
  }
  return out;
}

void StepRunner::fill(SeqResult& result, SeqRuntime& seq, Sampled& sampled) {
  if (!sampled.token) {
    seq.end();
    result.ended = true;
    result.finish = FinishReason::kError;
    return;
  }
  result.sampled = true;
  result.token = *sampled.token;
  result.logprob = sampled.logprobs.chosen;
  result.top = std::move(sampled.logprobs.top);
  if (const auto finish = seq.accept(result.token, *vocab_)) {
    result.ended = true;
    result.finish = *finish;
  }
}

}  // namespace lineshaft::worker
