// Where things lie in a packed tile: 16 outputs x k weights of one format.
//
// Plain constants, shared by the packer and by the bodies compiled per instruction set. A tile of a
// quantised format is two regions, each a plain stream:
//
//   quants: for each 32 k, quant_bytes: nibbles in four pieces of 64 bytes, byte 4 o + i of piece j
//     holding weight k = 8 j + i of output o in its low half and k = 8 j + 4 + i in its high half;
//     then for 5 bits 64 bytes, bit g of byte 4 o + i being the high bit of k = 4 g + i; for
//     6 bits 128 bytes, bits 2 g, 2 g + 1 likewise (g counted from 4 in the second 64 bytes).
//     8 bits: eight pieces of 64 bytes, byte 4 o + i of piece g holding k = 4 g + i, offset by 128.
//   scales: f16 d x 16, then f16 min x 16 where the format has one. 32-weight formats: for each
//     32 k. K formats: for each 256 k, followed by 8 times two bytes x 16: sub-scale and min, or in
//     Q6_K the sub-scales of the two halves.
//
// F32, F16, BF16: for each k the 16 outputs.
#pragma once

#include <cstdint>

#include "kernels/types.h"

namespace lineshaft::kernels {

inline constexpr int kTileOutputs = 16;
// Rises when anything below changes: packed tiles are kept in files too.
inline constexpr uint32_t kPackedLayoutVersion = 1;

struct PackedLayout {
  int bits;           // of a quant; 0: not quantised
  int bias;           // weight = scale * (quant - bias)
  bool has_min;
  bool is_k;          // scales in two levels
  int quant_bytes;    // of 32 k; for F32, F16, BF16 the bytes of one k
};

constexpr PackedLayout packed_layout(WeightType type) {
  switch (type) {
    case WeightType::kF32: return {0, 0, false, false, 64};
    case WeightType::kF16:
    case WeightType::kBF16: return {0, 0, false, false, 32};
    case WeightType::kQ4_0: return {4, 8, false, false, 256};
    case WeightType::kQ4_1: return {4, 0, true, false, 256};
    case WeightType::kQ5_0: return {5, 16, false, false, 320};
    case WeightType::kQ5_1: return {5, 0, true, false, 320};
    case WeightType::kQ8_0: return {8, 128, false, false, 512};
    case WeightType::kQ4_K: return {4, 0, true, true, 256};
    case WeightType::kQ5_K: return {5, 0, true, true, 320};
    case WeightType::kQ6_K: return {6, 32, false, true, 384};
  }
  return {};
}

// f16 d (and min) of 16 outputs.
constexpr int scale_head_bytes(const PackedLayout& layout) { return layout.has_min ? 64 : 32; }
// The K formats' bytes for 32 k.
inline constexpr int kSubScaleBytes = 32;

constexpr int64_t packed_quant_bytes(const PackedLayout& layout, int64_t k) {
  return layout.bits == 0 ? k * layout.quant_bytes : k / 32 * layout.quant_bytes;
}

constexpr int64_t packed_scale_bytes(const PackedLayout& layout, int64_t k) {
  if (layout.bits == 0) return 0;
  if (layout.is_k) return k / 256 * (scale_head_bytes(layout) + 8 * kSubScaleBytes);
  return k / 32 * scale_head_bytes(layout);
}

// A packed matrix as the kernels see it: borrowed memory, 64-byte aligned tiles.
struct PackedView {
  WeightType type;
  int64_t outputs;
  int64_t k;
  int64_t tile_bytes;
  const unsigned char* data;
};

}  // namespace lineshaft::kernels
