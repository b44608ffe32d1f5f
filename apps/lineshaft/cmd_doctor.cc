// lineshaft doctor: each check as a line with its fix. Exit code 0: all good, 1: warnings, 2: at
// least one failure.
#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "lineshaft/commands.h"
#include "lineshaft/doctor.h"
#include "lineshaft/print.h"
#include "lineshaft/terminal.h"

namespace lineshaft::app {
namespace {

constexpr const char* kWords[] = {"ok", "warn", "fail"};
constexpr const char* kColours[] = {"\033[32m", "\033[33m", "\033[31m"};

void print_check(const Check& check, bool json, bool colour) {
  const int state = static_cast<int>(check.state);
  if (json) {
    const Json line = {{"check", check.name},
                       {"state", kWords[state]},
                       {"detail", check.detail},
                       {"fix", check.fix}};
    print(stdout, "{}\n", write_json(line));
    return;
  }
  print(stdout, "{}{:<4}{} {}: {}\n", colour ? kColours[state] : "", kWords[state],
        colour ? "\033[0m" : "", check.name, check.detail);
  if (!check.fix.empty()) print(stdout, "     fix: {}\n", check.fix);
}

}  // namespace

int run_doctor(const Config& config) {
  const bool colour = use_colour(stdout_is_tty());
  CheckState worst = CheckState::kGood;
  for (const Check& check : examine(config)) {
    print_check(check, config.common.json, colour);
    worst = std::max(worst, check.state);
  }
  return static_cast<int>(worst);
}

}  // namespace lineshaft::app
