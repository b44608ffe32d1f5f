#include "kv/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lineshaft::kv {

StatusOr<KvArena> KvArena::create(const KvLayout& layout, int32_t block_count) {
  if (block_count <= 0 || layout.block_bytes <= 0 || layout.block_tokens <= 0) {
    return invalid_argument("a KV pool of {} blocks of {} tokens and {} bytes is empty",
                            block_count, layout.block_tokens, layout.block_bytes);
  }
  KvArena arena;
  arena.layout_ = layout;
  arena.block_count_ = block_count;
  // A stride within int64 for any count: 2^31 blocks of up to 2^31 bytes.
  if (layout.block_bytes > INT32_MAX) {
    return invalid_argument("a KV block of {} bytes is beyond 2 GiB: use smaller blocks",
                            layout.block_bytes);
  }
  arena.stride_ = (layout.block_bytes + 63) / 64 * 64;
  const auto bytes = static_cast<size_t>(arena.reserved_bytes());
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return resource_exhausted("a KV pool of {} blocks ({} bytes) can't be reserved: {}",
                              block_count, bytes, std::strerror(errno));
  }
  // Advice only: without huge pages attention is a little slower.
  ::madvise(data, bytes, MADV_HUGEPAGE);
  arena.data_ = static_cast<std::byte*>(data);
  return arena;
}

KvArena::~KvArena() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(reserved_bytes()));
}

std::byte* KvArena::block(BlockId block) const {
  LS_CHECK(block.value >= 0 && block.value < block_count_, "block {} of {}", block.value,
           block_count_);
  return data_ + stride_ * block.value;
}

}  // namespace lineshaft::kv
