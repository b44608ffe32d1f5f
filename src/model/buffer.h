// Buffer: a fixed array on 64-byte boundaries, huge pages advised. Owns its memory; pages are
// touched, and so resident, when they are first used.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "base/check.h"

namespace lineshaft::model {

template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  // Contents are unspecified. Running out of memory ends the process.
  explicit Buffer(int64_t count) {
    const size_t alignment = bytes_of(count) >= kHugePage ? kHugePage : kCacheLine;
    data_.reset(static_cast<T*>(std::aligned_alloc(alignment, bytes_of(count))));
    LS_CHECK(data_ != nullptr, "out of memory: {} bytes", bytes_of(count));
    if (alignment == kHugePage) ::madvise(data_.get(), bytes_of(count), MADV_HUGEPAGE);
  }

  T* get() { return data_.get(); }
  const T* get() const { return data_.get(); }

  // What an array of `count` takes: rounded up to a cache line, or to huge pages.
  static size_t bytes_of(int64_t count) {
    const size_t bytes = static_cast<size_t>(count > 0 ? count : 1) * sizeof(T);
    const size_t unit = bytes >= kHugePage ? kHugePage : kCacheLine;
    return (bytes + unit - 1) / unit * unit;
  }

 private:
  static constexpr size_t kCacheLine = 64;
  static constexpr size_t kHugePage = 2 << 20;
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> data_;
};

}  // namespace lineshaft::model
