// The subcommands. Each gets the finished configuration and returns the process's exit code.
// Results go to standard output, talk to standard error.
#pragma once

#include "lineshaft/config.h"

namespace lineshaft::app {

int run_bench(const Config& config);
int run_bench_compare(const Config& config);
int run_constrain(const Config& config);
int run_decode(const Config& config);
int run_doctor(const Config& config);
int run_encode(const Config& config);
int run_generate(const Config& config);
int run_inspect(const Config& config);
int run_pull(const Config& config);
int run_run(const Config& config);
int run_score(const Config& config);
int run_serve(const Config& config);
int run_tokenize(const Config& config);

}  // namespace lineshaft::app
