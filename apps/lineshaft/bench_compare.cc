#include "lineshaft/bench_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace lineshaft::app {
namespace {

constexpr int kSingleGenTokens = 128;
constexpr int kBatchGenTokens = 64;
constexpr int kBatchPromptTokens = 128;
// llama-bench warms up with the whole prompt; beyond this length the first pages are no matter.
constexpr int kWarmPromptTokensMax = 2048;

StatusOr<double> number_in(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) {
    return data_loss("the output has no number '{}'", key);
  }
  return object[key].get<double>();
}

// The last line that is a JSON object: the programs also print lines of text.
StatusOr<Json> last_object(const std::string& output) {
  std::istringstream lines(output);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) last = line;
  }
  if (last.empty()) return data_loss("the output has no JSON object");
  return parse_json(last);
}

}  // namespace

std::string CompareRow::name() const {
  if (prefill) return fmt::format("prefill {}", amount);
  return fmt::format("decode, {} sequence{}", amount, amount == 1 ? "" : "s");
}

StatusOr<CompareRow> parse_compare_row(const std::string& text) {
  const size_t dash = text.find('-');
  const std::string kind = text.substr(0, dash);
  CompareRow row;
  row.prefill = kind == "prefill";
  if (dash != std::string::npos && (row.prefill || kind == "decode")) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + dash + 1, end, row.amount);
    const int most = row.prefill ? 1 << 20 : 1024;
    if (error == std::errc() && stop == end && row.amount >= 1 && row.amount <= most) return row;
  }
  return invalid_argument("--rows: '{}' is not like prefill-512 or decode-16", text);
}

CompareRow fit_to_context(CompareRow row, int32_t context_tokens) {
  if (row.prefill && row.amount == context_tokens) --row.amount;
  return row;
}

std::string peer_program(const CompareRow& row) {
  return row.prefill || row.amount == 1 ? "llama-bench" : "llama-batched-bench";
}

std::vector<std::string> peer_arguments(const CompareRow& row, const std::string& model,
                                        int threads) {
  const auto text = [](int number) { return std::to_string(number); };
  if (!row.prefill && row.amount > 1) {
    const int context = row.amount * (kBatchPromptTokens + kBatchGenTokens) + 64;
    return {"-m", model, "-c", text(context), "-b", "2048", "-ub", "512", "-npp",
            text(kBatchPromptTokens), "-ntg", text(kBatchGenTokens), "-npl", text(row.amount),
            "-t", text(threads), "-tb", text(threads), "--output-format", "jsonl"};
  }
  std::vector<std::string> out = {"-m", model, "-p", row.prefill ? text(row.amount) : "0", "-n",
                                  row.prefill ? "0" : text(kSingleGenTokens), "-t", text(threads),
                                  "-r", "1", "-o", "json"};
  if (row.prefill && row.amount > kWarmPromptTokensMax) out.push_back("--no-warmup");
  return out;
}

std::vector<std::string> own_arguments(const CompareRow& row, const std::string& model,
                                       const Config& config, int threads) {
  const auto text = [](int number) { return std::to_string(number); };
  const bool single = row.prefill || row.amount == 1;
  return {"bench", "--json", "--model", model, "--repetitions", "1", "--threads", text(threads),
          "--profile", config.model.profile, "--kv-type", config.model.kv_type, "--kernels",
          config.model.kernels, "--batch", row.prefill ? "1" : text(row.amount), "--prompt-tokens",
          row.prefill ? text(row.amount) : "1", "--decode-prompt-tokens",
          single ? "1" : text(kBatchPromptTokens), "--gen-tokens",
          row.prefill ? "2" : text(single ? kSingleGenTokens : kBatchGenTokens)};
}

StatusOr<double> peer_rate(const CompareRow& row, const std::string& output) {
  if (!row.prefill && row.amount > 1) {
    LS_ASSIGN_OR_RETURN(const Json result, last_object(output));
    return number_in(result, "speed_tg");
  }
  LS_ASSIGN_OR_RETURN(const Json results, parse_json(output));
  if (!results.is_array() || results.size() != 1) {
    return data_loss("the output is not one result in an array");
  }
  return number_in(results[0], "avg_ts");
}

StatusOr<Json> own_result(const std::string& output) { return last_object(output); }

StatusOr<double> own_rate(const CompareRow& row, const Json& result) {
  const char* key = row.prefill ? "prompt_tokens_per_second" : "gen_tokens_per_second";
  if (!result.contains(key)) return data_loss("the output has no '{}'", key);
  return number_in(result[key], "median");
}

Json spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return Json{{"min", values.front()}, {"median", median}, {"max", values.back()}};
}

}  // namespace lineshaft::app
