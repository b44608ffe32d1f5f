#include "lineshaft/version.h"

#include <fmt/format.h>

#include "kernels/backend.h"

namespace lineshaft::app {

std::string version() { return LINESHAFT_VERSION; }

std::string commit() { return LINESHAFT_COMMIT; }

std::string version_text() {
  return fmt::format("lineshaft {}\ncommit {}\ncompiler {}\nkernels {}\n", version(), commit(),
                     __VERSION__, kernels::name_of(kernels::best_isa()));
}

}  // namespace lineshaft::app
