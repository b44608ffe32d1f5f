// Download: one HTTP transfer into an open file, with everything that servers do wrong in mind.
// Knows nothing of models, names or retries (that is pull.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace lineshaft::app {

struct DownloadRequest {
  std::string url;           // https, or http to a loopback host
  int fd = -1;               // open for writing; the caller owns it
  int64_t offset = 0;        // bytes that the file has already; asks for the rest only
  std::string validator;     // of the earlier part, not empty when offset > 0: a server whose file
                             // has another one sends everything
  int stall_seconds = 30;    // no byte for so long ends the transfer
  // Called once, before the first byte is written, with what the whole file will measure (-1:
  // unknown). A Status that is not ok ends the transfer and is what download() returns.
  std::function<Status(int64_t total_bytes)> on_size;
  // Called now and then with the bytes in the file so far and its whole size (-1: unknown).
  std::function<void(int64_t done_bytes, int64_t total_bytes)> on_progress;
};

struct DownloadReply {
  int64_t total_bytes = -1;  // as the server said; -1: it did not
  int64_t start_offset = 0;  // where the written bytes began; 0 when the server ignored the range
  std::string validator;     // strong ETag, else Last-Modified; "" when neither came
  std::string linked_sha256; // from X-Linked-ETag (64 hex digits); "" when none
};

// kUnavailable: a retry may help (connection, stall, cut, 5xx, 429). kNotFound (404, 410),
// kPermissionDenied (401, 403), kInvalidArgument (scheme, redirect, other 4xx), kDataLoss (answer
// does not fit the request), kOutOfRange (nothing beyond `offset`: the part is whole if total_bytes
// says so), kCancelled (interrupts() rose), or what on_size returned. `reply` is
// filled as far as headers came, also on failure.
Status download(const DownloadRequest& request, DownloadReply* reply);

}  // namespace lineshaft::app
