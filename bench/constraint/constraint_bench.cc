// Compile and mask times over the labelled schemas: constraint_bench TOKENIZER.json ROWS.jsonl...
//
// Each row is a schema with instances (tests/golden/schema/README.md). Every valid instance is
// walked token by token; the mask before each token is timed and must have the token.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "decoding/constraint/constraint.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

std::string percentiles(std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  const auto at = [&](double share) {
    if (us.empty()) return 0.0;
    return us[std::min(static_cast<size_t>(share * static_cast<double>(us.size())), us.size() - 1)];
  };
  double sum = 0;
  for (const double x : us) sum += x;
  return fmt::format("n {} mean {:.1f} p50 {:.1f} p90 {:.1f} p99 {:.1f} p99.9 {:.1f} max {:.1f} us",
                     us.size(), us.empty() ? 0 : sum / static_cast<double>(us.size()), at(0.5),
                     at(0.9), at(0.99), at(0.999), at(1));
}

struct Times {
  std::vector<double> compile;
  std::vector<double> masks;
  int64_t refused = 0;
  int64_t wrong = 0;
  std::vector<std::pair<double, std::string>> slowest;
};

void run_row(const Json& row, const recipe::Tokenizer& tokenizer,
             const std::shared_ptr<const decoding::TokenTrie>& trie, Times& times) {
  const std::string text = write_json(row["schema"]);
  const auto begun = Clock::now();
  const auto schema = parse_json(text, {.depth_max = 256});
  const auto compiled = decoding::compile_schema(*schema);
  if (compiled.program == nullptr) {
    ++times.refused;
    return;
  }
  const auto constraint = decoding::json_constraint(trie, compiled.program);
  times.compile.push_back(microseconds(Clock::now() - begun));
  if (!constraint.ok()) return;
  decoding::MaskWords mask(trie->words());
  double worst = 0;
  for (const Json& instance : row["instances"]) {
    if (!instance["valid"].get<bool>()) continue;
    decoding::Matcher matcher = (*constraint)->start();
    const std::string document = instance["text"];
    for (const TokenId id : tokenizer.encode(document, recipe::Tokenizer::Mode::kPlain)) {
      const auto mask_begun = Clock::now();
      if (!matcher.fill_mask(mask).ok()) return;
      times.masks.push_back(microseconds(Clock::now() - mask_begun));
      worst = std::max(worst, times.masks.back());
      const bool allowed = (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
      const bool taken = matcher.accept(id);
      times.wrong += allowed != taken ? 1 : 0;
      if (!taken) break;
    }
  }
  times.slowest.emplace_back(worst, row["id"].get<std::string>());
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "constraint_bench TOKENIZER.json ROWS.jsonl...\n");
    return 2;
  }
  const auto tokenizer = recipe::tokenizer_from_json_file(argv[1]);
  if (!tokenizer.ok()) {
    fmt::print(stderr, "{}\n", message_of(tokenizer.status()));
    return 1;
  }
  const auto begun = Clock::now();
  const auto trie = std::make_shared<const decoding::TokenTrie>(*(*tokenizer)->vocab());
  fmt::print("vocabulary {}, trie built in {:.0f} ms\n", trie->vocab_size(),
             microseconds(Clock::now() - begun) / 1000);
  for (int i = 2; i < argc; ++i) {
    std::ifstream in(argv[i]);
    Times times;
    for (std::string line; std::getline(in, line);) {
      const auto row = parse_json(line, {.depth_max = 256});
      if (row.ok()) run_row(*row, **tokenizer, trie, times);
    }
    fmt::print("{}: refused {}, masks that disagree with accept {}\n", argv[i], times.refused,
               times.wrong);
    fmt::print("  compile {}\n  mask    {}\n", percentiles(times.compile),
               percentiles(times.masks));
    std::sort(times.slowest.rbegin(), times.slowest.rend());
    for (size_t j = 0; j < std::min<size_t>(times.slowest.size(), 5); ++j) {
      fmt::print("  slowest mask {:.0f} us: {}\n", times.slowest[j].first, times.slowest[j].second);
    }
  }
  return 0;
}

}  // namespace
}  // namespace lineshaft

int main(int argc, char** argv) { return lineshaft::run(argc, argv); }
