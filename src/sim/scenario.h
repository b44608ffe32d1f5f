// Scenario: everything that a simulated run depends on, as one value; and how to run it. The
// engine under test is the product's own code, with a SimWorker and virtual time behind it.
#pragma once

#include <cstdint>

#include "node/engine.h"
#include "sim/faults.h"
#include "sim/report.h"
#include "sim/workload.h"

namespace lineshaft::sim {

struct Scenario {
  uint64_t seed = 1;
  node::EngineConfig engine;
  WorkloadConfig workload;
  WorkerFaults worker;
  StepCost true_cost;               // of the simulated machine; engine.scheduler.cost is a guess
  Duration progress_bound = Duration::seconds(3600);  // FairnessChecker's
};

// A scenario with everything drawn from the seed: pools from too small for two sequences to ample,
// faults of every kind, tables that are wrong by half or double.
Scenario draw_scenario(uint64_t seed);

// Runs until nothing is left to happen. Violations are in the report; a CHECK of the engine ends
// the process.
Report run(const Scenario& scenario);

// The same with callers of one's own; `scenario.workload` is not used.
Report run(const Scenario& scenario, const std::vector<Caller>& callers);

}  // namespace lineshaft::sim
