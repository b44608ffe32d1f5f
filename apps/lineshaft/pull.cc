#include "lineshaft/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "lineshaft/download.h"
#include "lineshaft/interrupt.h"

namespace lineshaft::app {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kDiskMarginBytes = 64 << 20;  // what must stay free besides the file

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool safe_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.size() <= 200 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

StatusOr<PullSource> hub_source(std::string_view rest) {
  std::vector<std::string> parts;
  while (true) {
    const size_t slash = rest.find('/');
    parts.emplace_back(rest.substr(0, slash));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (parts.size() < 3) return invalid_argument("an hf:// source is hf://org/repo/file.gguf");
  std::string revision = "main";
  if (const size_t at = parts[1].find('@'); at != std::string::npos) {
    revision = parts[1].substr(at + 1);
    parts[1].resize(at);
  }
  if (!safe_name(revision)) return invalid_argument("hf:// revision '{}' is no name", revision);
  for (const std::string& part : parts) {
    if (!safe_name(part)) return invalid_argument("hf:// source: '{}' is no name", part);
  }
  const char* endpoint = std::getenv("HF_ENDPOINT");
  std::string url = endpoint != nullptr && *endpoint != '\0' ? endpoint : "https://huggingface.co";
  while (url.ends_with('/')) url.pop_back();
  url += "/" + parts[0] + "/" + parts[1] + "/resolve/" + revision;
  for (size_t i = 2; i < parts.size(); ++i) url += "/" + parts[i];
  return PullSource{url, parts.back()};
}

// Beside the partial file: where it came from, so that only the same file is continued.
struct PartInfo {
  std::string url;
  std::string validator;
};

PartInfo read_info(const std::string& path) {
  PartInfo info;
  std::ifstream in(path);
  std::getline(in, info.url);
  std::getline(in, info.validator);
  return info;
}

void write_info(const std::string& path, const PartInfo& info) {
  std::ofstream(path, std::ios::trunc) << info.url << "\n" << info.validator << "\n";
}

StatusOr<std::string> sha256_of_file(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return unavailable("cannot read {}: {}", path, std::strerror(errno));
  Sha256 hash;
  std::vector<uint8_t> buffer(1 << 20);
  while (true) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unavailable("cannot read {}: {}", path, std::strerror(errno));
    if (n == 0) return to_hex(hash.finish());
    hash.update({buffer.data(), static_cast<size_t>(n)});
    if (interrupts() > 0) return make_status(StatusCode::kCancelled, "interrupted");
  }
}

int64_t size_of(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_size : 0;
}

Status check_space(const fs::path& folder, int64_t needed) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return ok_status();  // the write will tell
  const int64_t free_bytes = static_cast<int64_t>(info.f_bavail) * info.f_frsize;
  if (free_bytes >= needed + kDiskMarginBytes) return ok_status();
  return resource_exhausted("{} has {} bytes free, the file needs {} more and {} must stay free",
                            folder.string(), free_bytes, needed, kDiskMarginBytes);
}

bool may_help_to_retry(const Status& status) {
  return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDataLoss;
}

// One pull at work on an open, locked part file.
class Puller {
 public:
  Puller(const PullOptions& options, int fd)
      : options_(options), fd_(fd), part_(options.destination + ".part"),
        info_(options.destination + ".part.info") {}

  // Until the part file is whole as the server says.
  Status fetch() {
    for (int attempt = 1;; ++attempt) {
      const Status status = fetch_once(attempt);
      if (status.ok() || !may_help_to_retry(status) || attempt >= options_.attempts) {
        return status;
      }
      emit({PullEvent::Kind::kRetry, size_of(fd_), total_, attempt,
            std::string(message_of(status))});
      for (int i = 0; i < (10 << std::min(attempt - 1, 4)) && interrupts() == 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      if (interrupts() > 0) return make_status(StatusCode::kCancelled, "interrupted");
    }
  }

  // Digest and final name.
  StatusOr<PullResult> finish() {
    emit({PullEvent::Kind::kVerify, size_of(fd_), total_, 1, ""});
    PullResult result;
    result.bytes = size_of(fd_);
    LS_ASSIGN_OR_RETURN(result.sha256, sha256_of_file(part_));
    const std::string& wanted = options_.sha256.empty() ? server_sha256_ : options_.sha256;
    result.digest_checked = !wanted.empty();
    if (!wanted.empty() && wanted != result.sha256) {
      discard();
      return data_loss("SHA-256 of what came is {}, not {}; the file was deleted", result.sha256,
                       wanted);
    }
    if (fsync(fd_) != 0 || rename(part_.c_str(), options_.destination.c_str()) != 0) {
      return resource_exhausted("cannot keep {}: {}", options_.destination, std::strerror(errno));
    }
    unlink(info_.c_str());
    return result;
  }

 private:
  Status fetch_once(int attempt) {
    const PartInfo info = read_info(info_);
    const bool resumable = info.url == options_.url && !info.validator.empty();
    DownloadRequest request;
    request.url = options_.url;
    request.fd = fd_;
    request.offset = resumable ? size_of(fd_) : 0;
    request.validator = info.validator;
    request.stall_seconds = options_.stall_seconds;
    DownloadReply reply;
    request.on_size = [&](int64_t total) {
      total_ = total;
      write_info(info_, {options_.url, reply.validator});
      emit({PullEvent::Kind::kStart, reply.start_offset, total, attempt, ""});
      const int64_t needed = total < 0 ? 0 : total - reply.start_offset;
      return check_space(fs::absolute(options_.destination).parent_path(), needed);
    };
    request.on_progress = [&](int64_t done, int64_t total) {
      emit({PullEvent::Kind::kProgress, done, total, attempt, ""});
    };
    const Status status = download(request, &reply);
    if (!reply.linked_sha256.empty()) server_sha256_ = reply.linked_sha256;
    if (status.code() == StatusCode::kOutOfRange) {
      if (reply.total_bytes == request.offset) return ok_status();  // ended before the rename
      discard_bytes();
      return data_loss("the partial file is longer than the server's; starting anew");
    }
    if (status.code() == StatusCode::kDataLoss) discard_bytes();
    LS_RETURN_IF_ERROR(status);
    const int64_t size = size_of(fd_);
    if (reply.total_bytes >= 0 && size != reply.total_bytes) {
      if (size > reply.total_bytes) discard_bytes();
      return data_loss("{} bytes came, the server had promised {}", size, reply.total_bytes);
    }
    return ok_status();
  }

  void discard_bytes() {
    if (ftruncate(fd_, 0) != 0) unlink(info_.c_str());
  }

  void discard() {
    unlink(part_.c_str());
    unlink(info_.c_str());
  }

  void emit(const PullEvent& event) const {
    if (options_.on_event) options_.on_event(event);
  }

  const PullOptions& options_;
  const int fd_;
  const std::string part_;
  const std::string info_;
  int64_t total_ = -1;
  std::string server_sha256_;
};

StatusOr<PullResult> check_existing(const PullOptions& options) {
  PullResult result;
  result.already_there = true;
  LS_ASSIGN_OR_RETURN(result.sha256, sha256_of_file(options.destination));
  std::error_code error;
  result.bytes = static_cast<int64_t>(fs::file_size(options.destination, error));
  result.digest_checked = !options.sha256.empty();
  if (!options.sha256.empty() && options.sha256 != result.sha256) {
    return data_loss("{} exists with SHA-256 {}, not {}; --force fetches it again",
                     options.destination, result.sha256, options.sha256);
  }
  return result;
}

}  // namespace

StatusOr<PullSource> parse_pull_source(std::string_view source) {
  if (source.starts_with("hf://")) return hub_source(source.substr(5));
  if (!source.starts_with("https://") && !source.starts_with("http://")) {
    return invalid_argument(
        "'{}' is no source; use hf://org/repo/file.gguf or an https:// address", source);
  }
  std::string_view path = source.substr(0, source.find_first_of("?#"));
  path.remove_prefix(path.find("://") + 3);
  const size_t slash = path.rfind('/');
  const std::string file(slash == std::string_view::npos ? "" : path.substr(slash + 1));
  if (!safe_name(file)) {
    return invalid_argument("'{}' does not end in a file name; give one with --output", source);
  }
  return PullSource{std::string(source), file};
}

StatusOr<PullResult> pull(const PullOptions& options) {
  std::error_code error;
  if (!options.force && fs::exists(options.destination, error)) return check_existing(options);
  const fs::path folder = fs::path(options.destination).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return unavailable("cannot make {}: {}", folder.string(), error.message());
  const std::string part = options.destination + ".part";
  const Fd fd(open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (fd.get() < 0) return unavailable("cannot write {}: {}", part, std::strerror(errno));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return make_status(StatusCode::kAborted, part + " is being written by another pull");
  }
  Puller puller(options, fd.get());
  LS_RETURN_IF_ERROR(puller.fetch());
  return puller.finish();
}

}  // namespace lineshaft::app
