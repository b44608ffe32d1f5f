// What `lineshaft bench compare` runs, ours and llama.cpp's side by side: the command of each row
// and the rate in its output. Runs nothing itself.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "lineshaft/config.h"

namespace lineshaft::app {

// One row: prefill of `amount` tokens, or decode of `amount` sequences.
struct CompareRow {
  bool prefill = true;
  int amount = 0;

  std::string name() const;
};

// "prefill-512" or "decode-16". kInvalidArgument names what is not one.
StatusOr<CompareRow> parse_compare_row(const std::string& text);

// A prompt that fills the whole context leaves no room for a token: the amount that both sides run.
CompareRow fit_to_context(CompareRow row, int32_t context_tokens);

// Name of llama.cpp's program that measures the row: llama-bench or llama-batched-bench.
std::string peer_program(const CompareRow& row);

// Arguments of both sides for one measurement after one that warms up, the same amounts: a prefill;
// 128 tokens of one sequence; or 64 tokens of each sequence after prompts of 128.
std::vector<std::string> peer_arguments(const CompareRow& row, const std::string& model,
                                        int threads);
std::vector<std::string> own_arguments(const CompareRow& row, const std::string& model,
                                       const Config& config, int threads);

// Tokens a second in the output of a measurement. kDataLoss: it is not in there.
StatusOr<double> peer_rate(const CompareRow& row, const std::string& output);

// The object that `lineshaft bench --json` printed; kDataLoss.
StatusOr<Json> own_result(const std::string& output);
StatusOr<double> own_rate(const CompareRow& row, const Json& result);

// {"min", "median", "max"} of at least one value.
Json spread(std::vector<double> values);

}  // namespace lineshaft::app
