// The TOML configuration file as a list of settings. Knows nothing of which keys exist.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace lineshaft::app {

struct FileSetting {
  std::string section;              // the subcommand it is for; "": all that have the key
  std::string key;                  // a flag's long name without the dashes
  std::vector<std::string> values;  // as they would stand on the command line
  int line = 0;
};

// Keys at the top are for all commands, keys in [serve] and the like for that one. Values are
// strings, numbers, booleans or arrays of these. kInvalidArgument names file, line and column;
// kNotFound when the file cannot be read.
StatusOr<std::vector<FileSetting>> read_config_file(const std::string& path);

}  // namespace lineshaft::app
