// A program that this one runs to the end and whose output it reads. No shell, no input.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace lineshaft::app {

// The path of an executable: in `folder`, or in those of PATH when it is "". kNotFound.
StatusOr<std::string> find_program(const std::string& name, const std::string& folder);

// Runs arguments[0], a path, and returns its standard output (64 MiB at most). kUnavailable, with
// the last line of its standard error, when it can't be run or ends but by exit code 0.
// kCancelled after an interrupt (interrupt.h): the program has been ended then.
StatusOr<std::string> output_of(const std::vector<std::string>& arguments);

}  // namespace lineshaft::app
