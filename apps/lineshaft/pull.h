// Pull: a model file from the network into a folder, whole and checked or not at all.
//
// The bytes go to FILE.part beside the destination (with FILE.part.info to resume from) and get
// their final name only when size and digest are right. Prints nothing: see cmd_pull.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lineshaft::app {

struct PullSource {
  std::string url;
  std::string file;  // the last part of the path, safe as a file name
};

// "hf://org/repo/file.gguf" (also org/repo@revision and folders before the file; the hub's address
// is $HF_ENDPOINT or its public one) or an https URL. kInvalidArgument for anything else.
StatusOr<PullSource> parse_pull_source(std::string_view source);

struct PullEvent {
  enum class Kind { kStart, kProgress, kRetry, kVerify };
  Kind kind = Kind::kProgress;
  int64_t done_bytes = 0;
  int64_t total_bytes = -1;   // -1: the server did not say
  int attempt = 1;
  std::string reason;         // kRetry: why the last attempt ended
};

struct PullOptions {
  std::string url;
  std::string destination;    // final path; its folder is made
  std::string sha256;         // 64 hex digits; "": the server's word (X-Linked-ETag), if any
  bool force = false;         // fetch even if the destination exists
  int stall_seconds = 30;
  int attempts = 5;
  std::function<void(const PullEvent&)> on_event;
};

struct PullResult {
  int64_t bytes = 0;
  std::string sha256;         // of the file, hex
  bool digest_checked = false;  // compared with the caller's or the server's
  bool already_there = false;
};

// Codes of download(), and kDataLoss (size or digest wrong: the part is deleted),
// kResourceExhausted (disk), kAborted (another pull holds the part file).
StatusOr<PullResult> pull(const PullOptions& options);

}  // namespace lineshaft::app
