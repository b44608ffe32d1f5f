// PackedMatrix: a weight matrix re-ordered so that 16 outputs lie in the lanes of a register.
//
// Owns its memory (huge pages advised). The numbers are those of the file, bit for bit (integers,
// sub-scales and f16 scales are moved, not converted), so packing is free of rounding and the
// packed form can be unpacked again. The layout may change; results may not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/thread_team.h"
#include "kernels/packed_layout.h"
#include "kernels/types.h"

namespace lineshaft::kernels {

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Memory for outputs x k weights; filled by pack_tiles. k is a multiple of the format's block.
  // Throws std::bad_alloc when there is none.
  PackedMatrix(WeightType type, int64_t outputs, int64_t k);

  WeightType type() const { return type_; }
  int64_t outputs() const { return outputs_; }
  int64_t k() const { return k_; }
  int64_t tile_count() const { return (outputs_ + 15) / 16; }
  int64_t tile_bytes() const { return tile_bytes_; }
  int64_t bytes() const { return tile_count() * tile_bytes_; }
  PackedView view() const;  // borrowed: valid while this matrix lives

  // Fills tiles [tiles.begin, tiles.end) from `rows`: the whole matrix as in the file, outputs
  // rows of k weights. Shares may run on several threads. Missing outputs of the last tile are 0.
  void pack_tiles(std::span<const std::byte> rows, Range tiles);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  WeightType type_ = WeightType::kF32;
  int64_t outputs_ = 0;
  int64_t k_ = 0;
  int64_t tile_bytes_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace lineshaft::kernels
