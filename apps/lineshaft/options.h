// Options: command line, environment and file → Config. The only place that reads the
// environment's LINESHAFT_* variables and the configuration file.
//
// For a flag --some-name: the flag itself, else LINESHAFT_SOME_NAME, else `some-name` in the file
// given by --config (or the user's default file), else the default in config.h.
#pragma once

#include <string>
#include <vector>

#include "lineshaft/config.h"

namespace lineshaft::app {

struct ParsedCommand {
  int (*run)(const Config&) = nullptr;  // nullptr: nothing to run, end with `exit_code`
  int exit_code = 0;
  Config config;
};

// `args` without the program's name. Prints help, version, the effective configuration
// (--print-config) and errors itself. Never throws.
ParsedCommand parse_command_line(std::vector<std::string> args);

}  // namespace lineshaft::app
