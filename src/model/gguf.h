// GgufFile: a GGUF v2/v3 model file, mapped read-only and checked against its own size.
//
// Owns the mapping. After open() or parse() every key, string, array and tensor lies inside the
// file, so readers need no further checks of bytes; what the values mean is not its business
// (spec_loader.h). A file costs memory in proportion to its own metadata, whatever its counts say.
// Format: docs/gguf.md of the ggml project (little endian only).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/types.h"

namespace lineshaft::model {

enum class GgufType : uint32_t {
  kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64,
};

// One metadata entry; views into the file.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;    // of an array, never kArray
  uint64_t count = 1;                  // elements of an array
  std::span<const std::byte> bytes;    // the value; strings in arrays keep their u64 lengths
};

struct GgufTensor {
  std::string_view name;
  kernels::WeightType type = kernels::WeightType::kF32;
  int32_t dim_count = 1;
  std::array<int64_t, 4> dims{1, 1, 1, 1};  // dims[0] is the row length (contiguous)
  uint64_t offset = 0;                      // from the file's start
  uint64_t bytes = 0;

  int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
};

class GgufFile {
 public:
  // Errors: kNotFound (no such file), kUnavailable (the system refuses to map it), kDataLoss (not
  // a GGUF file, truncated or corrupt: the sentence names the key, tensor or byte),
  // kUnimplemented (version, byte order or tensor type that is not supported, by name).
  static StatusOr<std::shared_ptr<const GgufFile>> open(const std::string& path);

  // The same on bytes that the caller keeps alive and unchanged; `name` is for messages.
  static StatusOr<std::shared_ptr<const GgufFile>> parse(std::span<const std::byte> bytes,
                                                         std::string name);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint64_t size() const { return bytes_.size(); }
  const std::vector<GgufEntry>& entries() const { return entries_; }    // in file order
  const std::vector<GgufTensor>& tensors() const { return tensors_; }   // in file order

  const GgufEntry* find(std::string_view key) const;            // nullptr: no such key
  const GgufTensor* find_tensor(std::string_view name) const;   // nullptr: no such tensor
  std::span<const std::byte> data(const GgufTensor& tensor) const;

  // Values by key. kNotFound: no such key; kDataLoss: another type, or outside [min, max].
  StatusOr<int64_t> integer(std::string_view key,
                            int64_t min = std::numeric_limits<int64_t>::min(),
                            int64_t max = std::numeric_limits<int64_t>::max()) const;
  StatusOr<double> real(std::string_view key) const;            // f32 or f64, finite
  StatusOr<bool> boolean(std::string_view key) const;
  StatusOr<std::string_view> string(std::string_view key) const;
  StatusOr<std::vector<std::string_view>> strings(std::string_view key) const;
  StatusOr<std::vector<int64_t>> integers(std::string_view key) const;  // also of booleans
  StatusOr<std::vector<float>> floats(std::string_view key) const;      // of f32

  // The tensor's pages leave this process's memory (the page cache may keep them); reading them
  // again is slow but right.
  void drop_pages(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;
  Status read_all();
  Status read_entries(class GgufReader& reader, uint64_t count);
  Status read_tensors(class GgufReader& reader, uint64_t count);
  Status place_tensors(uint64_t data_start, uint64_t alignment);
  StatusOr<const GgufEntry*> entry(std::string_view key) const;

  std::string name_;
  uint32_t version_ = 0;
  std::span<const std::byte> bytes_;
  bool mapped_ = false;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<uint32_t> entries_by_key_;    // indices, ascending by key
  std::vector<uint32_t> tensors_by_name_;
};

// "u32", "string", "array of f32"…
std::string type_name(const GgufEntry& entry);

// A string of the file as it may appear in a message: control bytes escaped, cut to 100 bytes.
std::string printable(std::string_view text);

}  // namespace lineshaft::model
