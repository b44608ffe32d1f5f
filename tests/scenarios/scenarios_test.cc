// The product's engine in a simulated world, thousands of times: no token may be lost, doubled,
// wrong or out of order, no block unaccounted for, nobody may wait for ever, whatever callers and
// steps do. A failing run prints the command line that repeats it:
//
//   scenarios_test --seed 17        one run, with what it did
//   scenarios_test --runs 20000     more of them (default 1,000)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/scenario.h"

namespace lineshaft::sim {
namespace {

uint64_t g_runs = 1000;
uint64_t g_seed = 0;  // of the run in progress

std::string told(const Report& report) {
  std::string out;
  for (const std::string& violation : report.violations) out += "\n  " + violation;
  return out;
}

std::string repeat_with(uint64_t seed) {
  return fmt::format("\nrepeat with: scenarios_test --seed {}", seed);
}

// A run in which every caller stays and every request fits: all answers come whole.
Scenario undisturbed(uint64_t seed) {
  Scenario scenario = draw_scenario(seed);
  scenario.workload.faults = {};
  scenario.engine.default_limits = {};
  scenario.engine.scheduler.limits.queue_max = 1000;
  return scenario;
}

// A CHECK of the engine ends the process: its last words name the run.
void tell_seed(int) {
  std::fprintf(stderr, "repeat with: scenarios_test --seed %llu\n",
               static_cast<unsigned long long>(g_seed));
}

TEST(Scenarios, SeededRunsKeepEveryPromise) {
  std::signal(SIGABRT, tell_seed);
  policy::Scheduler::Counters sum;
  uint64_t refused = 0, late = 0, cancelled = 0, tokens = 0;
  for (uint64_t seed = 1; seed <= g_runs; ++seed) {
    g_seed = seed;
    const Report report = run(draw_scenario(seed));
    ASSERT_TRUE(report.violations.empty()) << told(report) << repeat_with(seed);
    const auto& counters = report.stats.scheduler;
    sum.preemptions += counters.preemptions;
    sum.resumes += counters.resumes;
    sum.prefix_hits += counters.prefix_hits;
    sum.prefix_waits += counters.prefix_waits;
    sum.skipped_rows += counters.skipped_rows;
    sum.reserved_starts += counters.reserved_starts;
    refused += report.refused;
    late += report.late;
    cancelled += report.cancelled;
    tokens += report.stats.generated_tokens;
  }
  // Rare branches were reached: otherwise the runs prove little.
  EXPECT_GT(sum.preemptions, 0u);
  EXPECT_GT(sum.resumes, 0u);
  EXPECT_GT(sum.prefix_hits, 0u);
  EXPECT_GT(sum.prefix_waits, 0u);
  EXPECT_GT(sum.skipped_rows, 0u);
  EXPECT_GT(sum.reserved_starts, 0u);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(late, 0u);
  EXPECT_GT(cancelled, 0u);
  fmt::print("{} runs, {} tokens: {} preemptions, {} resumes, {} prefix hits, {} prefix waits, "
             "{} skipped rows, {} reserved starts, {} refused, {} late, {} cancelled\n",
             g_runs, tokens, sum.preemptions, sum.resumes, sum.prefix_hits, sum.prefix_waits,
             sum.skipped_rows, sum.reserved_starts, refused, late, cancelled);
}

// A production incident becomes a test by its seed only if a run is a function of it.
TEST(Scenarios, SameSeedTwiceIsTheSameRun) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Report a = run(draw_scenario(seed));
    const Report b = run(draw_scenario(seed));
    ASSERT_EQ(a.events_hash, b.events_hash) << repeat_with(seed);
    ASSERT_EQ(a.plans_hash, b.plans_hash) << repeat_with(seed);
    const Report other = run(draw_scenario(seed + 1000));
    ASSERT_NE(a.events_hash, other.events_hash) << repeat_with(seed);
  }
}

TEST(Scenarios, PlanningAheadChangesNoToken) {
  uint64_t skipped = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Scenario scenario = undisturbed(seed);
    scenario.engine.plans_ahead_max = 1;
    const Report one = run(scenario);
    scenario.engine.plans_ahead_max = 2;
    const Report two = run(scenario);
    ASSERT_TRUE(one.violations.empty() && two.violations.empty()) << told(one) << told(two);
    ASSERT_EQ(one.answers, two.answers) << repeat_with(seed);
    ASSERT_EQ(one.stats.scheduler.skipped_rows, 0u) << repeat_with(seed);
    skipped += two.stats.scheduler.skipped_rows;
  }
  EXPECT_GT(skipped, 0u);
}

TEST(Scenarios, ATinyPoolChangesNoToken) {
  uint64_t preemptions = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Scenario scenario = undisturbed(seed);
    Limits& limits = scenario.engine.scheduler.limits;
    limits.kv_blocks = (limits.context_tokens + limits.block_tokens - 1) / limits.block_tokens;
    const auto callers = draw_workload(scenario.workload, limits, RngKey(seed));
    const Report tiny = run(scenario, callers);
    limits.kv_blocks *= 50;
    const Report ample = run(scenario, callers);
    ASSERT_TRUE(tiny.violations.empty() && ample.violations.empty()) << told(tiny) << told(ample);
    ASSERT_EQ(tiny.answers, ample.answers) << repeat_with(seed);
    ASSERT_EQ(ample.stats.scheduler.preemptions, 0u) << repeat_with(seed);
    preemptions += tiny.stats.scheduler.preemptions;
  }
  EXPECT_GT(preemptions, 0u);
}

}  // namespace

// One run and what it did; 0 when it was right.
int run_one(uint64_t seed) {
  const Report report = run(draw_scenario(seed));
  const auto& c = report.stats.scheduler;
  fmt::print("seed {}: {} steps to {:.1f} ms, {} tokens, {} preemptions, {} prefix hits, "
             "{} skipped rows, {} refused, {} late, {} cancelled, longest gap {:.1f} ms, "
             "events {:016x}, plans {:016x}{}\n",
             seed, c.steps, report.end.ns * 1e-6, report.stats.generated_tokens, c.preemptions,
             c.prefix_hits, c.skipped_rows, report.refused, report.late, report.cancelled,
             report.gap_max.in_milliseconds(), report.events_hash, report.plans_hash,
             told(report));
  return report.violations.empty() ? 0 : 1;
}

}  // namespace lineshaft::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--seed") == 0) {
      return lineshaft::sim::run_one(std::strtoull(argv[i + 1], nullptr, 10));
    }
    if (std::strcmp(argv[i], "--runs") == 0) {
      lineshaft::sim::g_runs = std::strtoull(argv[i + 1], nullptr, 10);
    }
  }
  return RUN_ALL_TESTS();
}
