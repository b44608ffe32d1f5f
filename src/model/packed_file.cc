#include "model/packed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace lineshaft::model {
namespace {

using kernels::PackedMatrix;

constexpr int64_t kChunk = 4 << 20;   // bytes under one checksum, read at a time by one rank

struct PackedHeader {
  char magic[8] = {'l', 's', 'p', 'a', 'c', 'k', '1', '\n'};
  uint32_t layout = kernels::kPackedLayoutVersion;
  uint32_t unused[7] = {};
  uint8_t fingerprint[16] = {};
  uint64_t checksum = 0;              // of the bytes before
};
static_assert(sizeof(PackedHeader) == 64);

struct MatrixHeader {
  uint64_t type = 0;
  int64_t outputs = 0;
  int64_t k = 0;
  int64_t bytes = 0;
};

MatrixHeader header_of(const PackedMatrix& m) {
  return {static_cast<uint64_t>(m.type()), m.outputs(), m.k(), m.bytes()};
}

uint64_t checksum_of(const PackedHeader& header) {
  return xxh64({reinterpret_cast<const uint8_t*>(&header), offsetof(PackedHeader, checksum)});
}

int64_t chunk_count(int64_t bytes) { return (bytes + kChunk - 1) / kChunk; }

uint64_t checksum_of(const std::byte* data, int64_t bytes) {
  return xxh64({reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(bytes)});
}

bool read_all(int fd, void* to, int64_t bytes, int64_t offset) {
  auto* data = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, data, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    bytes -= n;
    offset += n;
  }
  return true;
}

std::string unfinished(const std::string& path) { return path + ".part"; }

}  // namespace

std::unique_ptr<PackedFileReader> PackedFileReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  std::unique_ptr<PackedFileReader> reader(new PackedFileReader(fd));
  PackedHeader header;
  const PackedHeader expected;
  if (!read_all(fd, &header, sizeof header, 0) || header.checksum != checksum_of(header) ||
      std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 ||
      header.layout != expected.layout) {
    return nullptr;
  }
  std::copy_n(header.fingerprint, 16, reader->fingerprint_.bytes.begin());
  reader->at_ = sizeof header;
  return reader;
}

PackedFileReader::~PackedFileReader() { ::close(fd_); }

bool PackedFileReader::read(PackedMatrix& to, ThreadTeam& team) {
  const MatrixHeader expected = header_of(to);
  MatrixHeader header;
  if (!read_all(fd_, &header, sizeof header, at_) ||
      std::memcmp(&header, &expected, sizeof header) != 0) {
    return false;
  }
  const int64_t chunks = chunk_count(header.bytes);
  const int64_t data_at = at_ + static_cast<int64_t>(sizeof header);
  const int64_t sums_at = data_at + header.bytes;
  std::vector<uint64_t> sums(static_cast<size_t>(chunks));
  const auto sum_bytes = chunks * static_cast<int64_t>(sizeof(uint64_t));
  if (!read_all(fd_, sums.data(), sum_bytes, sums_at)) return false;
  std::atomic<bool> good{true};
  const std::span<std::byte> data = to.mutable_bytes();
  team.run([&](int rank) {
    const Range share = share_of(chunks, rank, team.count());
    for (int64_t c = share.begin; c < share.end && good.load(std::memory_order_relaxed); ++c) {
      std::byte* chunk = data.data() + c * kChunk;
      const int64_t bytes = std::min(kChunk, header.bytes - c * kChunk);
      if (!read_all(fd_, chunk, bytes, data_at + c * kChunk) ||
          checksum_of(chunk, bytes) != sums[static_cast<size_t>(c)]) {
        good.store(false, std::memory_order_relaxed);
      }
    }
  });
  at_ = sums_at + sum_bytes;
  return good.load();
}

StatusOr<std::unique_ptr<PackedFileWriter>> PackedFileWriter::create(const std::string& path) {
  const std::string part = unfinished(path);
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return unavailable("{}: {}", part, std::strerror(errno));
  std::unique_ptr<PackedFileWriter> writer(new PackedFileWriter(fd, path));
  // Its place; the content comes last.
  LS_RETURN_IF_ERROR(writer->put(std::string(sizeof(PackedHeader), '\0').data(),
                                 sizeof(PackedHeader)));
  return writer;
}

PackedFileWriter::~PackedFileWriter() {
  ::close(fd_);
  if (!finished_) ::unlink(unfinished(path_).c_str());
}

Status PackedFileWriter::put(const void* data, int64_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, static_cast<size_t>(bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unavailable("{}: {}", unfinished(path_), std::strerror(errno));
    from += n;
    bytes -= n;
  }
  return ok_status();
}

Status PackedFileWriter::add(const PackedMatrix& matrix) {
  const MatrixHeader header = header_of(matrix);
  LS_RETURN_IF_ERROR(put(&header, sizeof header));
  const std::span<const std::byte> data = matrix.bytes_view();
  std::vector<uint64_t> sums;
  for (int64_t at = 0; at < header.bytes; at += kChunk) {
    const int64_t bytes = std::min(kChunk, header.bytes - at);
    sums.push_back(checksum_of(data.data() + at, bytes));
    LS_RETURN_IF_ERROR(put(data.data() + at, bytes));
  }
  return put(sums.data(), static_cast<int64_t>(sums.size() * sizeof(uint64_t)));
}

Status PackedFileWriter::finish(const Hash128& fingerprint) {
  PackedHeader header;
  std::copy_n(fingerprint.bytes.begin(), 16, header.fingerprint);
  header.checksum = checksum_of(header);
  const std::string part = unfinished(path_);
  if (::pwrite(fd_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      ::fsync(fd_) != 0 || std::rename(part.c_str(), path_.c_str()) != 0) {
    return unavailable("{}: {}", part, std::strerror(errno));
  }
  finished_ = true;
  return ok_status();
}

}  // namespace lineshaft::model
