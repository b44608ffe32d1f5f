// KvArena: the memory of all KV blocks of a worker, reserved once; BlockId → address.
//
// Owns the bytes; decides nothing (which block is whose is policy's business) and knows nothing of
// what lies inside a block: the layers one after the other, each as kernels::AttentionShape says.
// Memory is reserved at start and becomes resident as blocks are first written, so a pool that is
// not used costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "core/block.h"
#include "core/ids.h"

namespace lineshaft::kv {

class KvArena {
 public:
  // kInvalidArgument: no blocks, or no bytes in one; kResourceExhausted: the system refuses the
  // address space. Blocks begin as zeros; huge pages are asked for.
  static StatusOr<KvArena> create(const KvLayout& layout, int32_t block_count);

  KvArena(KvArena&& other) noexcept { swap(other); }
  KvArena& operator=(KvArena&& other) noexcept {
    swap(other);
    return *this;
  }
  ~KvArena();

  const KvLayout& layout() const { return layout_; }
  int32_t block_count() const { return block_count_; }
  // Address space; what is resident is at most this.
  int64_t reserved_bytes() const { return stride_ * block_count_; }

  // First byte of a block, 64-byte aligned. CHECKs that 0 <= block < block_count.
  std::byte* block(BlockId block) const;

 private:
  KvArena() = default;
  void swap(KvArena& other) noexcept {
    std::swap(layout_, other.layout_);
    std::swap(block_count_, other.block_count_);
    std::swap(stride_, other.stride_);
    std::swap(data_, other.data_);
  }

  KvLayout layout_;
  int32_t block_count_ = 0;
  int64_t stride_ = 0;        // block_bytes rounded up to a cache line
  std::byte* data_ = nullptr;
};

}  // namespace lineshaft::kv
