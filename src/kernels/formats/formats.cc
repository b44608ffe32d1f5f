#include "kernels/formats/formats.h"

#include <bit>

#include "kernels/formats/blocks.h"

namespace lineshaft::kernels {
namespace {

float f16_at(const std::byte* p) { return f16_to_f32(load_u16(p)); }

template <WeightType kType>
void dequantise_32(const std::byte* row, int64_t k, float* out) {
  const WeightTypeInfo& format = info(kType);
  for (int64_t b = 0; b < k / 32; ++b) {
    const std::byte* block = row + b * format.block_bytes;
    uint8_t q[32];
    block_quants(kType, block, 0, q);
    const float d = f16_at(block + block_d_offset(kType));
    const float m = block_has_min(kType) ? f16_at(block + block_min_offset(kType)) : 0.0f;
    for (int i = 0; i < 32; ++i) {
      const float product = d * static_cast<float>(q[i] - block_bias(kType));
      out[b * 32 + i] = block_has_min(kType) ? product + m : product;
    }
  }
}

template <WeightType kType>
void dequantise_k(const std::byte* row, int64_t k, float* out) {
  const WeightTypeInfo& format = info(kType);
  for (int64_t b = 0; b < k / 256; ++b) {
    const std::byte* block = row + b * format.block_bytes;
    const float d = f16_at(block + block_d_offset(kType));
    const float dmin = block_has_min(kType) ? f16_at(block + block_min_offset(kType)) : 0.0f;
    for (int part = 0; part < 8; ++part) {
      uint8_t q[32];
      block_quants(kType, block, part, q);
      const SubScales sub = block_sub_scales(kType, block, part);
      float* to = out + b * 256 + part * 32;
      for (int i = 0; i < 32; ++i) {
        const float scale = d * static_cast<float>(i < 16 ? sub.first : sub.second);
        const float product = scale * static_cast<float>(q[i] - block_bias(kType));
        to[i] = block_has_min(kType) ? product - dmin * static_cast<float>(sub.min) : product;
      }
    }
  }
}

}  // namespace

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) {
    // Infinity, or a NaN made quiet as F16C does.
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | quiet);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  // 65520 is half-way between the largest half (65504) and what would be 65536.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14: a subnormal half. Adding 0.5 aligns its unit, 2^-24, with the unit of f32, so
    // that the addition rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  const uint32_t rounded = magnitude + 0xfffu + odd - (112u << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
  return static_cast<uint16_t>(rounded >> 16);
}

void dequantise_row(WeightType type, const std::byte* row, int64_t k, float* out) {
  switch (type) {
    case WeightType::kF32: __builtin_memcpy(out, row, static_cast<size_t>(k) * 4); return;
    case WeightType::kF16:
      for (int64_t i = 0; i < k; ++i) out[i] = f16_at(row + 2 * i);
      return;
    case WeightType::kBF16:
      for (int64_t i = 0; i < k; ++i) out[i] = bf16_to_f32(load_u16(row + 2 * i));
      return;
    case WeightType::kQ4_0: return dequantise_32<WeightType::kQ4_0>(row, k, out);
    case WeightType::kQ4_1: return dequantise_32<WeightType::kQ4_1>(row, k, out);
    case WeightType::kQ5_0: return dequantise_32<WeightType::kQ5_0>(row, k, out);
    case WeightType::kQ5_1: return dequantise_32<WeightType::kQ5_1>(row, k, out);
    case WeightType::kQ8_0: return dequantise_32<WeightType::kQ8_0>(row, k, out);
    case WeightType::kQ4_K: return dequantise_k<WeightType::kQ4_K>(row, k, out);
    case WeightType::kQ5_K: return dequantise_k<WeightType::kQ5_K>(row, k, out);
    case WeightType::kQ6_K: return dequantise_k<WeightType::kQ6_K>(row, k, out);
  }
}

}  // namespace lineshaft::kernels
