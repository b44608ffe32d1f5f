#include "worker/warmup.h"

#include <algorithm>
#include <memory>

#include "base/clock.h"

namespace lineshaft::worker {
namespace {

// Rows of a "large" step: enough that weights are read once for many rows, and cheap enough to
// repeat (30 ms for a model of 135 million parameters on two cores).
constexpr int32_t kRowsLarge = 32;
// Context of the long step: attention must outweigh the noise of timing.
constexpr int32_t kContextLong = 1024;
constexpr int kRepetitionsMax = 5;

class Prober {
 public:
  Prober(StepRunner& runner, Duration budget_each)
      : runner_(runner), budget_each_(budget_each) {}

  // Fastest time in ms of a step of `rows` rows that ends at position `end` of a sequence.
  double fastest(int32_t rows, int32_t end, bool sample) {
    const Instant deadline = clock_.now() + budget_each_;
    double best = once(rows, end, sample);
    for (int i = 1; i < kRepetitionsMax && clock_.now() < deadline; ++i) {
      best = std::min(best, once(rows, end, sample));
    }
    return best;
  }

  double once(int32_t rows, int32_t end, bool sample) {
    auto request = std::make_shared<Request>();
    // A step samples at a sequence's last position only: one token more, and it does not.
    request->prompt.assign(static_cast<size_t>(end + (sample ? 0 : 1)), 0);
    request->sampling.max_tokens = 2;
    request->sampling.ignore_eos = true;
    const SeqId seq{next_seq_++};
    StepPlan plan;
    plan.starts.push_back({seq, 0, std::move(request)});
    const int32_t block_tokens = runner_.arena().layout().block_tokens;
    const int32_t blocks = (end + block_tokens - 1) / block_tokens;
    for (int32_t i = 0; i < blocks; ++i) plan.blocks.push_back({i});
    plan.work.push_back({seq, end - rows, rows, sample, 0, blocks});
    plan.row_count = rows;
    const double ms = runner_.run(plan).compute.in_milliseconds();
    StepPlan clean;
    clean.ends.push_back(seq);
    runner_.run(clean);
    return ms;
  }

 private:
  StepRunner& runner_;
  SystemClock clock_;
  Duration budget_each_;
  uint64_t next_seq_ = 0;
};

}  // namespace

StepCost warm_up(StepRunner& runner, Duration budget) {
  const StepRunnerOptions& options = runner.options();
  const int64_t room = int64_t{options.kv_blocks} * options.forward.block_tokens;
  const auto context = static_cast<int32_t>(
      std::min<int64_t>({kContextLong, room, options.context_tokens}));
  const int32_t rows = std::min({kRowsLarge, options.forward.step_tokens_max, context});
  Prober prober(runner, {budget.ns / 4});
  prober.once(rows, rows, true);  // touches weights and activations; not measured

  const double one = prober.fastest(1, 1, false);
  const double sampled = prober.fastest(1, 1, true);
  const double many = prober.fastest(rows, rows, false);
  const double far = prober.fastest(rows, context, false);
  StepCost cost;
  // Differences of times can be negative by noise; a cost can't.
  if (rows > 1) cost.row_ms = std::max(0.0, (many - one) / (rows - 1));
  cost.base_ms = std::max(0.0, one - cost.row_ms);
  cost.sample_ms = std::max(0.0, sampled - one);
  const double pairs = static_cast<double>(rows) * (context - rows);
  if (pairs > 0) cost.pair_ms = std::max(0.0, (far - many) / pairs);
  return cost;
}

}  // namespace lineshaft::worker
