// Exit codes of the program and the one way a command reports failure.
#pragma once

#include "base/status.h"

namespace lineshaft::app {

// docs/cli.md promises these numbers to scripts.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,
  kWrongUse = 2,
  kNoMemory = 3,
  kBadModel = 4,
  kNetwork = 5,
  kInterrupted = 130,
};

// Prints "lineshaft: <sentence>" to standard error and returns `code`.
int fail(ExitCode code, const Status& status);

// The same, with the code that belongs to what a model's loading may return:
// kResourceExhausted: 3; kInvalidArgument and kOutOfRange (a setting): 2; else 4.
int fail_load(const Status& status);

}  // namespace lineshaft::app
