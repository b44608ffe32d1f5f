// lineshaft bench compare: this program and llama.cpp in turn, the same file, threads and amounts.
//
// Every measurement is a process of its own on both sides; a round is one of each. The ratio of a
// round is ours over theirs, so that what slows both cancels.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "lineshaft/bench_compare.h"
#include "lineshaft/child_process.h"
#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/memory_plan.h"
#include "lineshaft/print.h"
#include "lineshaft/wiring.h"

namespace lineshaft::app {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

struct Sides {
  std::string model;
  std::map<std::string, std::string> peers;   // path by name
};

struct RowResult {
  std::vector<double> theirs, ours, ratios;
  Json own;   // what `bench` said last: machine, kernels, file
};

Status measure(const CompareRow& row, const Sides& sides, const Config& config, RowResult* out) {
  const int threads = thread_count(config);
  std::vector<std::string> command = peer_arguments(row, sides.model, threads);
  command.insert(command.begin(), sides.peers.at(peer_program(row)));
  LS_ASSIGN_OR_RETURN(const std::string theirs_text, output_of(command));
  LS_ASSIGN_OR_RETURN(const double theirs, peer_rate(row, theirs_text));
  command = own_arguments(row, sides.model, config, threads);
  command.insert(command.begin(), kSelf);
  LS_ASSIGN_OR_RETURN(const std::string ours_text, output_of(command));
  LS_ASSIGN_OR_RETURN(out->own, own_result(ours_text));
  LS_ASSIGN_OR_RETURN(const double ours, own_rate(row, out->own));
  if (!(theirs > 0.0 && ours > 0.0)) return data_loss("a rate is not above zero");
  out->theirs.push_back(theirs);
  out->ours.push_back(ours);
  out->ratios.push_back(ours / theirs);
  return ok_status();
}

void print_row(const CompareRow& row, RowResult& result, bool json) {
  const Json theirs = spread(result.theirs), ours = spread(result.ours);
  const Json ratio = spread(result.ratios);
  if (json) {
    for (const char* key : {"batch", "prompt_tokens", "gen_tokens", "decode_prompt_tokens",
                            "prompt_tokens_per_second", "gen_tokens_per_second"}) {
      result.own.erase(key);
    }
    print_json({{"work", row.name()}, {"unit", "tokens/s"}, {"rounds", result.ratios.size()},
                {"llama.cpp", theirs}, {"lineshaft", ours}, {"ratio", ratio},
                {"run", result.own}});
    return;
  }
  const auto cell = [](const Json& values, int digits) {
    return fmt::format("{:.{}f} / {:.{}f} / {:.{}f}", values["min"].get<double>(), digits,
                       values["median"].get<double>(), digits, values["max"].get<double>(),
                       digits);
  };
  print(stdout, "| {:<20} | {:>20} | {:>20} | {:>20} |\n", row.name(), cell(theirs, 0),
        cell(ours, 0), cell(ratio, 2));
  std::fflush(stdout);
}

// The rows that the model's context has room for.
StatusOr<std::vector<CompareRow>> rows_of(const Config& config, const OpenModel& open) {
  std::vector<CompareRow> out;
  for (const std::string& text : config.compare.rows) {
    LS_ASSIGN_OR_RETURN(const CompareRow asked, parse_compare_row(text));
    const CompareRow row = fit_to_context(asked, open.spec.context_max);
    if (row.prefill && row.amount > open.spec.context_max) {
      print(stderr, "{}: left out, the model's context is {} tokens\n", row.name(),
            open.spec.context_max);
      continue;
    }
    out.push_back(row);
  }
  return out;
}

StatusOr<Sides> find_sides(const Config& config, const OpenModel& open,
                           const std::vector<CompareRow>& rows) {
  Sides out;
  out.model = open.path;
  for (const CompareRow& row : rows) {
    const std::string name = peer_program(row);
    auto path = find_program(name, config.compare.peer_dir);
    if (!path.ok()) {
      return not_found("{}; --peer-dir names the folder of llama.cpp's programs, bench/peers "
                       "builds them", message_of(path.status()));
    }
    out.peers[name] = *std::move(path);
  }
  return out;
}

}  // namespace

int run_bench_compare(const Config& config) {
  catch_interrupts();
  const auto open = open_model(config);
  if (!open.ok()) return fail_load(open.status());
  const auto rows = rows_of(config, *open);
  if (!rows.ok()) return fail(kWrongUse, rows.status());
  const auto sides = find_sides(config, *open, *rows);
  if (!sides.ok()) return fail(kFailed, sides.status());
  if (!config.common.json) {
    print(stdout, "{}: tokens/s, min / median / max of {} rounds, {} threads\n\n"
          "| {:<20} | {:>20} | {:>20} | {:>20} |\n|---|---|---|---|\n", open->name,
          config.compare.rounds, thread_count(config), "work", "llama.cpp", "lineshaft", "ratio");
  }
  for (const CompareRow& row : *rows) {
    RowResult result;
    for (int round = 0; round < config.compare.rounds; ++round) {
      const Status status = measure(row, *sides, config, &result);
      if (status.code() == StatusCode::kCancelled) return kInterrupted;
      if (!status.ok()) {
        return fail(kFailed, make_status(status.code(), fmt::format("{}: {}", row.name(),
                                                                    message_of(status))));
      }
    }
    print_row(row, result, config.common.json);
  }
  return kOk;
}

}  // namespace lineshaft::app
