#include "kernels/formats/blocks.h"

#include <cstring>

namespace lineshaft::kernels {
namespace {

unsigned u8(const std::byte* p, int i) { return std::to_integer<unsigned>(p[i]); }

// 32 weights in 16 bytes: the first half in low nibbles, the second in high ones.
unsigned nibble_of_16(const std::byte* qs, int i) {
  return i < 16 ? u8(qs, i) & 15u : u8(qs, i - 16) >> 4;
}

// A part's nibbles in Q4_K and Q5_K: two parts share 32 bytes.
unsigned nibble_of_k(const std::byte* qs, int part, int i) {
  return (u8(qs + 32 * (part / 2), i) >> (4 * (part % 2))) & 15u;
}

unsigned q6_k(const std::byte* block, int part, int i) {
  const int half = part / 4;
  const int quarter = part % 4;
  const unsigned low = u8(block + 64 * half + 32 * (quarter & 1), i) >> (4 * (quarter >> 1));
  const unsigned high = u8(block + 128 + 32 * half, i) >> (2 * quarter);
  return (low & 15u) | (high & 3u) << 4;
}

template <typename Quant>
void fill(uint8_t* q, const Quant& quant) {
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(quant(i));
}

// Bit i of 32 bits, as the fifth bit of a quant.
unsigned fifth_of_32(uint32_t bits, int i) { return (bits >> i & 1u) << 4; }

}  // namespace

SubScales block_sub_scales(WeightType type, const std::byte* block, int part) {
  if (type == WeightType::kQ6_K) {
    const auto scale = [&](int i) {
      return static_cast<int>(static_cast<int8_t>(u8(block + 192, i)));
    };
    return {scale(2 * part), scale(2 * part + 1), 0};
  }
  // Twelve bytes hold eight 6-bit scales and eight 6-bit mins.
  const std::byte* s = block + 4;
  unsigned scale = u8(s, part) & 63u;
  unsigned min = 0;
  if (part < 4) {
    min = u8(s, part + 4) & 63u;
  } else {
    scale = (u8(s, part + 4) & 15u) | (u8(s, part - 4) >> 6) << 4;
    min = u8(s, part + 4) >> 4 | (u8(s, part) >> 6) << 4;
  }
  return {static_cast<int>(scale), static_cast<int>(scale), static_cast<int>(min)};
}

void block_quants(WeightType type, const std::byte* block, int part, uint8_t* q) {
  uint32_t bits = 0;
  switch (type) {
    case WeightType::kQ4_0: return fill(q, [&](int i) { return nibble_of_16(block + 2, i); });
    case WeightType::kQ4_1: return fill(q, [&](int i) { return nibble_of_16(block + 4, i); });
    case WeightType::kQ5_0:
      std::memcpy(&bits, block + 2, 4);
      return fill(q, [&](int i) { return nibble_of_16(block + 6, i) | fifth_of_32(bits, i); });
    case WeightType::kQ5_1:
      std::memcpy(&bits, block + 4, 4);
      return fill(q, [&](int i) { return nibble_of_16(block + 8, i) | fifth_of_32(bits, i); });
    case WeightType::kQ8_0: return fill(q, [&](int i) { return u8(block + 2, i) ^ 0x80u; });
    case WeightType::kQ4_K: return fill(q, [&](int i) { return nibble_of_k(block + 16, part, i); });
    case WeightType::kQ5_K:
      return fill(q, [&](int i) {
        return nibble_of_k(block + 48, part, i) | ((u8(block + 16, i) >> part) & 1u) << 4;
      });
    case WeightType::kQ6_K: return fill(q, [&](int i) { return q6_k(block, part, i); });
    default: return fill(q, [](int) { return 0u; });
  }
}

}  // namespace lineshaft::kernels
