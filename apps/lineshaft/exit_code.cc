#include "lineshaft/exit_code.h"

#include <cstdio>

namespace lineshaft::app {

int fail(ExitCode code, const Status& status) {
  const std::string_view text = message_of(status);
  std::fprintf(stderr, "lineshaft: %.*s\n", static_cast<int>(text.size()), text.data());
  return code;
}

int fail_load(const Status& status) {
  switch (status.code()) {
    case StatusCode::kResourceExhausted: return fail(kNoMemory, status);
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange: return fail(kWrongUse, status);
    default: return fail(kBadModel, status);
  }
}

}  // namespace lineshaft::app
