// lineshaft score: what a model thinks of given tokens: the log-probability of each next one.
#include <algorithm>
#include <cstdio>

#include "base/thread_team.h"
#include "decoding/logprobs.h"
#include "kv/arena.h"
#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/print.h"
#include "lineshaft/wiring.h"
#include "model/forward.h"

namespace lineshaft::app {
namespace {

constexpr int32_t kChunkRows = 64;   // rows a step, all with logits: [64, vocab] floats

// One forward pass after the other over a single sequence; no scheduler is needed for that.
class Scorer {
 public:
  Scorer(const LoadedModel& model, const model::ForwardOptions& options, int threads,
         kv::KvArena arena)
      : kernels_(kernels::kernels_for(options.isa)),
        vocab_(model.open.spec.vocab),
        team_(threads),
        forward_(model.weights, options, threads),
        arena_(std::move(arena)) {}

  Json score(const std::vector<TokenId>& ids, int top) {
    Json logprobs = Json::array();
    Json last_top = Json::array();
    const auto count = static_cast<int32_t>(ids.size());
    for (int32_t first = 0; first < count; first += kChunkRows) {
      const int32_t rows = std::min(kChunkRows, count - first);
      forward_.run(team_, batch(ids, first, rows));
      for (int32_t r = 0; r < rows; ++r) {
        const float* logits = forward_.logits(r);
        const std::span<const float> row(logits, static_cast<size_t>(vocab_));
        if (first + r + 1 == count) {
          for (const TokenLogprob& t : decoding::top_values(row, 0.0f, top)) {
            last_top.push_back(Json::array({t.token, json_float(t.logprob)}));
          }
          break;
        }
        const TokenId next = ids[static_cast<size_t>(first + r + 1)];
        logprobs.push_back(
            json_float(decoding::token_logprobs(kernels_, row, next, 0).chosen));
      }
    }
    return Json{{"logprobs", logprobs}, {"last_top", last_top}};
  }

 private:
  model::ForwardBatch batch(const std::vector<TokenId>& ids, int32_t first, int32_t rows) const {
    model::ForwardBatch out;
    out.tokens.assign(ids.begin() + first, ids.begin() + first + rows);
    out.sequences.push_back({0, rows, first, 0});
    const int32_t block_tokens = arena_.layout().block_tokens;
    for (int32_t b = 0; b * block_tokens < first + rows; ++b) {
      out.blocks.push_back(arena_.block(BlockId{b}));
    }
    for (int32_t r = 0; r < rows; ++r) out.logit_rows.push_back(r);
    return out;
  }

  const kernels::Kernels& kernels_;
  const int32_t vocab_;
  ThreadTeam team_;
  model::Forward forward_;
  kv::KvArena arena_;
};

StatusOr<std::unique_ptr<Scorer>> make_scorer(const Config& config, const LoadedModel& model,
                                              int32_t tokens_max) {
  model::ForwardOptions options = forward_options(config);
  options.step_tokens_max = kChunkRows;
  options.logit_rows_max = kChunkRows;
  KvLayout layout;
  layout.block_tokens = options.block_tokens;
  layout.block_bytes =
      model::kv_block_bytes(model.open.spec, options.kv_type, options.block_tokens);
  LS_ASSIGN_OR_RETURN(kv::KvArena arena,
                      kv::KvArena::create(layout, tokens_max / options.block_tokens + 1));
  return std::make_unique<Scorer>(model, options, thread_count(config), std::move(arena));
}

// The longest line; a line beyond the context is refused by its number.
StatusOr<int32_t> longest(const std::vector<std::vector<TokenId>>& lines, int32_t context) {
  size_t longest = 1;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() > static_cast<size_t>(context)) {
      return out_of_range("line {} has {} tokens, the context {}", i + 1, lines[i].size(),
                          context);
    }
    longest = std::max(longest, lines[i].size());
  }
  return static_cast<int32_t>(longest);
}

void print_score(const Json& score, bool json) {
  if (json) return print_json(score);
  double sum = 0.0;
  for (const Json& value : score["logprobs"]) sum += value.get<double>();
  const auto count = static_cast<double>(score["logprobs"].size());
  print(stdout, "{} tokens scored, mean log-probability {:.4f}\n", count,
        count > 0 ? sum / count : 0.0);
}

}  // namespace

int run_score(const Config& config) {
  catch_interrupts();
  auto open = open_model(config);
  if (!open.ok()) return fail_load(open.status());
  if (config.score.tokens_file.empty()) {
    return fail(kWrongUse, invalid_argument("score needs --tokens FILE"));
  }
  const auto lines = read_token_file(config.score.tokens_file, open->spec.vocab);
  if (!lines.ok()) return fail(kWrongUse, lines.status());
  const auto tokens_max = longest(*lines, open->spec.context_max);
  if (!tokens_max.ok()) return fail(kWrongUse, tokens_max.status());
  const auto model = load_model(config, std::move(*open));
  if (!model.ok()) return fail_load(model.status());
  const auto scorer = make_scorer(config, *model, *tokens_max);
  if (!scorer.ok()) return fail_load(scorer.status());
  for (const auto& ids : *lines) {
    print_score((*scorer)->score(ids, config.score.top), config.common.json);
    if (interrupts() > 0) return kInterrupted;
  }
  return kOk;
}

}  // namespace lineshaft::app
