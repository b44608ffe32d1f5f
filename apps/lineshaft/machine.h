// Facts about this machine that the operating system tells: cores, memory, disk, limits.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace lineshaft::app {

// Cores that this process may use: the affinity mask, cut by a cgroup's CPU quota (at least 1).
int usable_cores();

struct MemoryFacts {
  int64_t total_bytes = 0;      // of the machine, or the cgroup's limit if that is lower
  int64_t available_bytes = 0;  // without swapping, now
};
MemoryFacts memory_facts();

// Resident memory of this process, now.
int64_t resident_bytes();

std::string cpu_name();         // "AMD EPYC …"; "unknown" when /proc does not tell

struct DiskFacts {
  int64_t free_bytes = 0;
  double write_mb_per_s = 0.0;  // 64 MiB written and synced, MB = 10^6 bytes
  double read_mb_per_s = 0.0;   // the same read back past the page cache; 0: could not be measured
};
// Measures in a file of its own inside `folder` (made if it is missing) and removes it again.
StatusOr<DiskFacts> measure_disk(const std::string& folder);

int64_t open_files_max();       // the soft limit of this process

}  // namespace lineshaft::app
