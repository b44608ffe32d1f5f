// Doctor: checks of this machine as data. Prints nothing.
#pragma once

#include <string>
#include <vector>

#include "lineshaft/config.h"

namespace lineshaft::app {

enum class CheckState { kGood, kWarn, kFail };

struct Check {
  std::string name;    // "cpu", "memory", …
  CheckState state = CheckState::kGood;
  std::string detail;  // what was found
  std::string fix;     // what to do; "" when nothing
};

// Costs about a second: the disk's speed is measured.
std::vector<Check> examine(const Config& config);

}  // namespace lineshaft::app
