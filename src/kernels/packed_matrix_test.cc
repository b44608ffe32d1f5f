// At stake: that packing loses nothing, whoever packs which tiles, and that shared memory outlives
// whoever handed it out.
#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/test_util.h"

namespace lineshaft::kernels {
namespace {

std::vector<std::byte> random_bytes(uint64_t seed, int64_t count) {
  const RngKey key(seed);
  std::vector<std::byte> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(key.bits(i));
  return out;
}

int64_t file_bytes(WeightType type, int64_t outputs, int64_t k) {
  return outputs * k / info(type).block_elements * info(type).block_bytes;
}

bool same_bytes(const PackedMatrix& a, const PackedMatrix& b) {
  return a.bytes() == b.bytes() &&
         std::memcmp(a.view().data, b.view().data, static_cast<size_t>(a.bytes())) == 0;
}

TEST(PackedMatrixTest, TilesPackedInAnyCutAreTheSame) {
  for (int i = 0; i < kWeightTypeCount; ++i) {
    const auto type = static_cast<WeightType>(i);
    const int64_t outputs = 70, k = 512;
    const auto rows = random_bytes(1, file_bytes(type, outputs, k));
    PackedMatrix whole(type, outputs, k), cut(type, outputs, k);
    whole.pack_tiles(rows, {0, whole.tile_count()});
    for (int64_t t = cut.tile_count() - 1; t >= 0; --t) cut.pack_tiles(rows, {t, t + 1});
    EXPECT_TRUE(same_bytes(whole, cut)) << info(type).name;
    EXPECT_EQ(whole.bytes(), PackedMatrix::bytes_of(type, outputs, k));
  }
}

TEST(PackedMatrixTest, EveryBitOfABlockCounts) {
  for (int i = 0; i < kWeightTypeCount; ++i) {
    const auto type = static_cast<WeightType>(i);
    const int64_t outputs = 16, k = 256;
    auto rows = random_bytes(2, file_bytes(type, outputs, k));
    PackedMatrix before(type, outputs, k), after(type, outputs, k);
    before.pack_tiles(rows, {0, 1});
    for (int64_t bit = 0; bit < 8 * info(type).block_bytes; ++bit) {
      const auto mask = static_cast<std::byte>(1 << bit % 8);
      rows[static_cast<size_t>(bit / 8)] ^= mask;
      after.pack_tiles(rows, {0, 1});
      EXPECT_FALSE(same_bytes(before, after)) << info(type).name << " bit " << bit;
      rows[static_cast<size_t>(bit / 8)] ^= mask;
    }
  }
}

TEST(PackedMatrixTest, SharedMemoryKeepsMatricesApartAndOutlivesItsGiver) {
  std::vector<PackedMatrix> matrices;
  std::vector<std::vector<std::byte>> files;
  {
    PackedMemory memory;
    for (uint64_t i = 0; i < 40; ++i) {
      const int64_t outputs = 16 + 48 * static_cast<int64_t>(i), k = 1024;
      files.push_back(random_bytes(i, file_bytes(WeightType::kQ8_0, outputs, k)));
      matrices.emplace_back(WeightType::kQ8_0, outputs, k, memory);
      matrices.back().pack_tiles(files.back(), {0, matrices.back().tile_count()});
    }
  }
  for (size_t i = 0; i < matrices.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(matrices[i].view().data) % 64, 0u);
    PackedMatrix alone(WeightType::kQ8_0, matrices[i].outputs(), 1024);
    alone.pack_tiles(files[i], {0, alone.tile_count()});
    EXPECT_TRUE(same_bytes(matrices[i], alone)) << i;
  }
}

}  // namespace
}  // namespace lineshaft::kernels
