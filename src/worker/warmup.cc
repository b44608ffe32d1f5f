#include "worker/warmup.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "base/clock.h"

namespace lineshaft::worker {
namespace {

// Rows of a "large" step: enough that weights are read once for many rows, and cheap enough to
// repeat (30 ms for a model of 135 million parameters on two cores).
constexpr int32_t kRowsLarge = 32;
// Context of the long step: attention must outweigh the noise of timing.
constexpr int32_t kContextLong = 1024;
// Sequences of the step that shows what a further answer costs: one reading of the output
// projection serves all, so the first sampled row is dear and the others are not.
constexpr int32_t kSequencesMany = 16;
constexpr int kRoundsMax = 5;

// A step of `sequences` equal sequences, each with `rows` rows that end at position `end`.
struct Probe {
  int32_t sequences = 1;
  int32_t rows = 1;
  int32_t end = 1;
  bool sample = false;
};

class Prober {
 public:
  explicit Prober(StepRunner& runner) : runner_(runner) {}

  // Fastest time in ms of each probe: all in turn, so that a busy moment of the machine does not
  // meet one kind only.
  template <size_t count>
  std::array<double, count> fastest(const std::array<Probe, count>& probes, Duration budget) {
    const Instant deadline = clock_.now() + budget;
    std::array<double, count> best;
    best.fill(std::numeric_limits<double>::infinity());
    for (int round = 0; round < kRoundsMax && (round == 0 || clock_.now() < deadline); ++round) {
      for (size_t i = 0; i < count; ++i) best[i] = std::min(best[i], once(probes[i]));
    }
    return best;
  }

  double once(const Probe& probe) {
    auto request = std::make_shared<Request>();
    // A step samples at a sequence's last position only: one token more, and it does not.
    request->prompt.assign(static_cast<size_t>(probe.end + (probe.sample ? 0 : 1)), 0);
    request->sampling.max_tokens = 2;
    request->sampling.ignore_eos = true;
    const int32_t block_tokens = runner_.arena().layout().block_tokens;
    const int32_t blocks = (probe.end + block_tokens - 1) / block_tokens;
    StepPlan plan;
    StepPlan clean;
    for (int32_t i = 0; i < probe.sequences; ++i) {
      const SeqId seq{next_seq_++};
      plan.starts.push_back({seq, 0, request});
      plan.work.push_back({seq, probe.end - probe.rows, probe.rows, probe.sample,
                           static_cast<int32_t>(plan.blocks.size()), blocks});
      for (int32_t b = 0; b < blocks; ++b) plan.blocks.push_back({i * blocks + b});
      plan.row_count += probe.rows;
      clean.ends.push_back(seq);
    }
    const double ms = runner_.run(plan).compute.in_milliseconds();
    runner_.run(clean);
    return ms;
  }

 private:
  StepRunner& runner_;
  SystemClock clock_;
  uint64_t next_seq_ = 0;
};

}  // namespace

StepCost warm_up(StepRunner& runner, Duration budget) {
  const StepRunnerOptions& options = runner.options();
  const int64_t room = int64_t{options.kv_blocks} * options.forward.block_tokens;
  const auto context =
      static_cast<int32_t>(std::min<int64_t>({kContextLong, room, options.context_tokens}));
  const int32_t rows = std::min({kRowsLarge, options.forward.step_tokens_max, context});
  const int32_t sequences = std::min({kSequencesMany, options.forward.step_tokens_max,
                                      options.forward.logit_rows_max, options.kv_blocks});
  Prober prober(runner);
  prober.once({1, rows, rows, true});  // touches weights and activations; not measured
  const auto [one, answer, answers, many, far] =
      prober.fastest(std::array<Probe, 5>{{{1, 1, 1, false},
                                           {1, 1, 1, true},
                                           {sequences, 1, 1, true},
                                           {1, rows, rows, false},
                                           {1, rows, context, false}}},
                     budget);
  StepCost cost;
  // Differences of times can be negative by noise; a cost can't. Nor does a further answer cost
  // more than the first, nor a step with an answer less than one without.
  if (rows > 1) cost.row_ms = std::max(0.0, (many - one) / (rows - 1));
  if (sequences > 1) {
    cost.sample_ms = std::clamp((answers - answer) / (sequences - 1) - cost.row_ms, 0.0,
                                std::max(0.0, answer - one));
  }
  cost.base_ms = std::max({0.0, answer - cost.row_ms - cost.sample_ms, one - cost.row_ms});
  const double pairs = static_cast<double>(rows) * (context - rows);
  if (pairs > 0) cost.pair_ms = std::max(0.0, (far - many) / pairs);
  return cost;
}

}  // namespace lineshaft::worker
