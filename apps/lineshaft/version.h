// What this binary is: version, commit, compiler.
#pragma once

#include <string>

namespace lineshaft::app {

std::string version();           // "0.1.0"
std::string commit();            // of the sources when they were configured; "unknown" without git
std::string version_text();      // several lines for --version

}  // namespace lineshaft::app
