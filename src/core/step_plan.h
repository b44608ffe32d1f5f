// StepPlan and StepResult: what a worker is told to do in one step, and what it answers.
//
// Both carry memory for reuse, so that steps of sequences that just go on allocate nothing: the
// answer brings the plan back, and the next plan takes the answer's vector along. Their contents
// mean nothing there, and a worker at the other end of a wire may leave them behind.
//
// A plan names tokens by their place (sequence, position); the worker holds the contents. While
// step n runs, the plan for n+1 may already be queued: a row whose input token is sampled by step
// n is planned like any other, and the worker fills it in. If the sequence ended in step n, the
// worker skips its work in n+1 and says so (SeqResult::skipped).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "core/ids.h"
#include "core/request.h"
#include "core/token_event.h"

namespace lineshaft {

// A sequence that the worker meets for the first time. Its contents begin as request->prompt.
struct SeqStart {
  SeqId seq;
  int32_t choice = 0;                       // index among the request's n
  std::shared_ptr<const Request> request;
};

// Compute the KV of positions [first, first + count) of one sequence, in this step. Positions
// below `first` are in KV already. Rows of one sequence are contiguous and ascending.
struct SeqWork {
  SeqId seq;
  int32_t first = 0;
  int32_t count = 0;         // >= 1
  bool sample = false;       // the last row's logits give the token at position first + count;
                             // set iff that row is the sequence's last known position
  int32_t blocks_begin = 0;  // into StepPlan::blocks: the sequence's block table, entry i covers
  int32_t blocks_count = 0;  // positions [i * block_tokens, (i + 1) * block_tokens)
};

struct SeqResult {
  SeqId seq;
  bool skipped = false;           // the sequence had ended before this step; nothing was computed
  bool sampled = false;           // `token` is valid
  TokenId token = 0;
  bool ended = false;             // with `finish`; when kStop, `token` is the stop token
  FinishReason finish = FinishReason::kStop;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;
};

struct StepPlan {
  StepId step;
  std::vector<SeqStart> starts;   // carried out before the work
  std::vector<SeqId> ends;        // contents to forget, before the work; unknown ids are ignored
  std::vector<SeqWork> work;      // at least one; order carries no meaning
  std::vector<BlockId> blocks;    // flat block tables
  int32_t row_count = 0;          // sum of work[i].count

  // Memory for the answer, empty: a worker moves it into StepResult::results and fills it there.
  std::vector<SeqResult> results;
};

struct StepResult {
  StepId step;
  std::vector<SeqResult> results;  // one for each StepPlan::work, same order
  Duration compute;                // from the first kernel to the last token
  StepPlan plan;                   // the one carried out, for its memory
};

// Milliseconds that work costs on this worker; measured at start, corrected online by policy.
// A step costs base + rows * row + samples * sample + pairs * pair, where pairs counts
// (query row, attended position) over all sequences.
struct StepCost {
  double base_ms = 0.0;
  double row_ms = 0.0;      // a further row in a large step
  double sample_ms = 0.0;   // a row that needs logits
  double pair_ms = 0.0;
};

}  // namespace lineshaft
