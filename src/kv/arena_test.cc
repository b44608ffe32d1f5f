// At stake: two blocks that overlap mix two users' texts; a pool that is resident from the start
// takes memory that nobody uses.
#include "kv/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lineshaft::kv {
namespace {

int64_t resident_pages(const std::byte* begin, int64_t bytes) {
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> state(static_cast<size_t>((bytes + page - 1) / page));
  EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), static_cast<size_t>(bytes), state.data()), 0);
  return std::count_if(state.begin(), state.end(), [](unsigned char c) { return c & 1; });
}

TEST(KvArena, BlocksAreApartAlignedAndZero) {
  auto arena = KvArena::create({16, 1000}, 37).value();
  for (int i = 0; i < 37; ++i) {
    std::byte* block = arena.block({i});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    for (int j = 0; j < 1000; ++j) ASSERT_EQ(block[j], std::byte{0});
    std::memset(block, i + 1, 1000);
  }
  for (int i = 0; i < 37; ++i) {
    for (int j = 0; j < 1000; ++j) ASSERT_EQ(arena.block({i})[j], std::byte(i + 1));
  }
}

TEST(KvArena, MemoryBecomesResidentAsItIsWritten) {
  constexpr int64_t kBlockBytes = 4 << 20;
  auto arena = KvArena::create({128, kBlockBytes}, 256).value();
  EXPECT_EQ(arena.reserved_bytes(), 256 * kBlockBytes);
  EXPECT_EQ(resident_pages(arena.block({0}), arena.reserved_bytes()), 0);
  std::memset(arena.block({3}), 1, kBlockBytes);
  const int64_t bytes = resident_pages(arena.block({0}), arena.reserved_bytes()) *
                        static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_GE(bytes, kBlockBytes);
  EXPECT_LE(bytes, kBlockBytes + (4 << 20));  // a huge page at each end
}

TEST(KvArena, MovesWithoutCopying) {
  auto first = KvArena::create({16, 64}, 2).value();
  std::byte* data = first.block({0});
  KvArena second = std::move(first);
  EXPECT_EQ(second.block({0}), data);
  EXPECT_EQ(second.block_count(), 2);
}

TEST(KvArena, RefusesWhatCannotBe) {
  EXPECT_EQ(KvArena::create({16, 64}, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(KvArena::create({16, 0}, 4).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(KvArena::create({16, int64_t{1} << 40}, 4).status().code(),
            StatusCode::kInvalidArgument);
  // 4 exabytes: beyond any address space.
  EXPECT_EQ(KvArena::create({16, INT32_MAX}, INT32_MAX).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(KvArenaDeathTest, BlockOutOfRangeIsOurBug) {
  auto arena = KvArena::create({16, 64}, 2).value();
  EXPECT_DEATH(arena.block({2}), "CHECK failed");
  EXPECT_DEATH(arena.block({-1}), "CHECK failed");
}

}  // namespace
}  // namespace lineshaft::kv
