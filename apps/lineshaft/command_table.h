// The table of subcommands: name, what it is for, its options and what runs.
#pragma once

#include <vector>

#include "lineshaft/config.h"

namespace CLI {
class App;
}

namespace lineshaft::app {

struct Command {
  const char* name;
  const char* summary;
  void (*add_options)(CLI::App* app, Config* config);  // binds flags to fields of `config`
  int (*run)(const Config& config);
};

const std::vector<Command>& commands();

}  // namespace lineshaft::app
