// The one binary: finds the command and runs it.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "lineshaft/options.h"

int main(int argc, char** argv) {
  const lineshaft::app::ParsedCommand parsed =
      lineshaft::app::parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
  const int code = parsed.run == nullptr ? parsed.exit_code : parsed.run(parsed.config);
  return std::fflush(stdout) == 0 ? code : 1;
}
