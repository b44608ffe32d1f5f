// Blocks of the quantised GGUF formats, field by field: what the file's bytes say, as integers.
//
// One part is 32 weights; the 32-weight formats have one part a block, the K formats eight. Nothing
// here is fast and nothing here rounds; callers give whole blocks and quantised types only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace lineshaft::kernels {

inline uint16_t load_u16(const std::byte* p) {
  return static_cast<uint16_t>(std::to_integer<unsigned>(p[0]) |
                               std::to_integer<unsigned>(p[1]) << 8);
}

// weight = scale * (quant - bias) (+ min). Q8_0's signed bytes are given as quant = byte + 128.
constexpr int block_bias(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0: return 8;
    case WeightType::kQ5_0: return 16;
    case WeightType::kQ6_K: return 32;
    case WeightType::kQ8_0: return 128;
    default: return 0;
  }
}

constexpr bool block_has_min(WeightType type) {
  return type == WeightType::kQ4_1 || type == WeightType::kQ5_1 || type == WeightType::kQ4_K ||
         type == WeightType::kQ5_K;
}

constexpr bool block_is_k(WeightType type) {
  return type == WeightType::kQ4_K || type == WeightType::kQ5_K || type == WeightType::kQ6_K;
}

// Where a block's f16 scale lies, in bytes.
constexpr int block_d_offset(WeightType type) { return type == WeightType::kQ6_K ? 208 : 0; }
// Where its f16 min lies (K formats: the scale of the mins); only if block_has_min.
constexpr int block_min_offset(WeightType) { return 2; }

// A part's own scales in the K formats: for its first and second 16 weights (differ in Q6_K only),
// and of its min.
struct SubScales {
  int first;
  int second;
  int min;
};
SubScales block_sub_scales(WeightType type, const std::byte* block, int part);

// The unsigned quants of one part.
void block_quants(WeightType type, const std::byte* block, int part, uint8_t* q);

}  // namespace lineshaft::kernels
