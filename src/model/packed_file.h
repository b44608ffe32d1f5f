// PackedFile: the packed matrices of one model on disk, so that a later start reads what an earlier
// one packed.
//
// A cache: it may be missing, cut, damaged or of another model, and is then as good as none; every
// byte that is used was checked. Matrices lie in the order in which they are loaded. Owns the
// file's form; when to write one is weights.cc's business.
//
// Form (little endian): a header of 64 bytes (PackedHeader in packed_file.cc), then for each matrix
// its type and shape, its bytes as in memory, and an xxh64 of each 4 MiB of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/hash.h"
#include "base/status.h"
#include "base/thread_team.h"
#include "kernels/packed_matrix.h"

namespace lineshaft::model {

class PackedFileReader {
 public:
  // nullptr: no file of this form and of this layout of tiles.
  static std::unique_ptr<PackedFileReader> open(const std::string& path);
  ~PackedFileReader();
  PackedFileReader(const PackedFileReader&) = delete;
  PackedFileReader& operator=(const PackedFileReader&) = delete;

  // Fills `to` with the next matrix, all ranks reading and checking. False: the next one has
  // another shape, is damaged or not there; `to` then has no defined content.
  bool read(kernels::PackedMatrix& to, ThreadTeam& team);

  // Of the model whose matrices these are (ModelSpec::fingerprint).
  const Hash128& fingerprint() const { return fingerprint_; }

 private:
  explicit PackedFileReader(int fd) : fd_(fd) {}

  int fd_;
  int64_t at_ = 0;
  Hash128 fingerprint_;
};

// Writes beside `path` and renames at the end, so that no half file is ever read.
class PackedFileWriter {
 public:
  // kUnavailable names the file and what the system says.
  static StatusOr<std::unique_ptr<PackedFileWriter>> create(const std::string& path);
  ~PackedFileWriter();   // without finish: nothing is left
  PackedFileWriter(const PackedFileWriter&) = delete;
  PackedFileWriter& operator=(const PackedFileWriter&) = delete;

  Status add(const kernels::PackedMatrix& matrix);
  Status finish(const Hash128& fingerprint);

 private:
  PackedFileWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status put(const void* data, int64_t bytes);

  int fd_;
  std::string path_;
  bool finished_ = false;
};

}  // namespace lineshaft::model
