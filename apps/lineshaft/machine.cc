#include "lineshaft/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace lineshaft::app {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The number behind `key` in a file of "Key:   123 kB" lines, in bytes; -1 when missing.
int64_t kilobytes_of(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key + ":")) continue;
    return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return -1;
}

int64_t number_in(const std::string& path, int64_t missing) {
  const std::string line = first_line(path);
  if (line.empty() || line == "max") return missing;
  return std::strtoll(line.c_str(), nullptr, 10);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

constexpr size_t kChunkBytes = 4 << 20;
constexpr int kChunks = 16;

Status write_chunks(int fd, const std::byte* buffer, double* mb_per_s) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kChunks; ++i) {
    if (write(fd, buffer, kChunkBytes) != static_cast<ssize_t>(kChunkBytes)) {
      return unavailable("writing failed: {}", std::strerror(errno));
    }
  }
  if (fsync(fd) != 0) return unavailable("fsync failed: {}", std::strerror(errno));
  *mb_per_s = kChunkBytes * kChunks / 1e6 / seconds_since(begin);
  return ok_status();
}

// 0 where the file system does not do O_DIRECT.
double read_speed(const std::string& path, std::byte* buffer) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (fd < 0) return 0.0;
  const auto begin = std::chrono::steady_clock::now();
  int64_t total = 0;
  ssize_t n = 0;
  while ((n = read(fd, buffer, kChunkBytes)) > 0) total += n;
  close(fd);
  return n < 0 ? 0.0 : static_cast<double>(total) / 1e6 / seconds_since(begin);
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  std::istringstream quota(first_line("/sys/fs/cgroup/cpu.max"));
  double limit = 0.0, period = 0.0;
  if (quota >> limit >> period && period > 0.0) {
    cores = std::min(cores, static_cast<int>((limit + period - 1) / period));
  }
  return std::max(cores, 1);
}

MemoryFacts memory_facts() {
  MemoryFacts facts;
  facts.total_bytes = std::max<int64_t>(kilobytes_of("/proc/meminfo", "MemTotal"), 0);
  facts.available_bytes = std::max<int64_t>(kilobytes_of("/proc/meminfo", "MemAvailable"), 0);
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max", facts.total_bytes);
  if (limit < facts.total_bytes) {
    facts.total_bytes = limit;
    const int64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
    facts.available_bytes = std::min(facts.available_bytes, std::max<int64_t>(limit - used, 0));
  }
  return facts;
}

int64_t resident_bytes() {
  return std::max<int64_t>(kilobytes_of("/proc/self/status", "VmRSS"), 0);
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

StatusOr<DiskFacts> measure_disk(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return unavailable("cannot make {}: {}", folder, error.message());
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) {
    return unavailable("cannot look at {}: {}", folder, std::strerror(errno));
  }
  DiskFacts facts;
  facts.free_bytes = static_cast<int64_t>(info.f_bavail) * info.f_frsize;
  if (facts.free_bytes < static_cast<int64_t>(4 * kChunkBytes * kChunks)) return facts;
  std::string path = folder + "/.doctor-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd < 0) return unavailable("cannot write in {}: {}", folder, std::strerror(errno));
  const std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(4096, kChunkBytes),
                                                      std::free);
  auto* buffer = static_cast<std::byte*>(memory.get());
  std::memset(buffer, 0x5a, kChunkBytes);
  const Status written = write_chunks(fd, buffer, &facts.write_mb_per_s);
  close(fd);
  if (written.ok()) facts.read_mb_per_s = read_speed(path, buffer);
  unlink(path.c_str());
  LS_RETURN_IF_ERROR(written);
  return facts;
}

int64_t open_files_max() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<int64_t>(limit.rlim_cur) : 0;
}

}  // namespace lineshaft::app
