// PackedMatrix: a weight matrix re-ordered so that 16 outputs lie in the lanes of a register.
//
// Owns its memory, alone or with others (PackedMemory). The numbers are those of the file, bit for
// bit (integers, sub-scales and f16 scales are moved, not converted), so packing is free of
// rounding and the packed form can be unpacked again. The layout may change; results may not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_team.h"
#include "kernels/packed_layout.h"
#include "kernels/types.h"

namespace lineshaft::kernels {

// Hands out memory from large pieces on huge pages, so that streaming many small matrices costs few
// TLB misses. A piece lives as long as the last matrix in it. One thread at a time.
class PackedMemory {
 public:
  // 64-byte aligned; throws std::bad_alloc when there is none.
  std::shared_ptr<std::byte[]> take(int64_t bytes);

 private:
  std::shared_ptr<std::byte[]> piece_;
  int64_t used_ = 0;
};

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Memory for outputs x k weights, from `memory`; filled by pack_tiles. k is a multiple of the
  // format's block. Throws std::bad_alloc when there is none.
  PackedMatrix(WeightType type, int64_t outputs, int64_t k, PackedMemory& memory);
  // The same with memory of its own.
  PackedMatrix(WeightType type, int64_t outputs, int64_t k);

  // What a matrix takes.
  static int64_t bytes_of(WeightType type, int64_t outputs, int64_t k);

  WeightType type() const { return type_; }
  int64_t outputs() const { return outputs_; }
  int64_t k() const { return k_; }
  int64_t tile_count() const { return (outputs_ + 15) / 16; }
  int64_t tile_bytes() const { return tile_bytes_; }
  int64_t bytes() const { return tile_count() * tile_bytes_; }
  PackedView view() const;  // borrowed: valid while this matrix lives
  // The tiles as they lie in memory, and the same to be filled with what another matrix of equal
  // type and shape gave.
  std::span<const std::byte> bytes_view() const;
  std::span<std::byte> mutable_bytes();

  // Fills tiles [tiles.begin, tiles.end) from `rows`: the whole matrix as in the file, outputs
  // rows of k weights. Shares may run on several threads. Missing outputs of the last tile are 0.
  void pack_tiles(std::span<const std::byte> rows, Range tiles);

 private:
  WeightType type_ = WeightType::kF32;
  int64_t outputs_ = 0;
  int64_t k_ = 0;
  int64_t tile_bytes_ = 0;
  std::shared_ptr<std::byte[]> data_;
};

}  // namespace lineshaft::kernels
