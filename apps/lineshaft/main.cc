// The one binary: finds the command and runs it.
#include <cstdio>
#include <string>
#include <vector>

#include "lineshaft/options.h"

int main(int argc, char** argv) {
  const lineshaft::app::ParsedCommand parsed =
      lineshaft::app::parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
  const int code = parsed.run == nullptr ? parsed.exit_code : parsed.run(parsed.config);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  std::fputs("lineshaft: standard output could not be written\n", stderr);
  return code == 0 ? 1 : code;
}
