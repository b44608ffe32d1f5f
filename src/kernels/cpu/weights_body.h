// Reading packed tiles (packed_layout.h): quants as bytes, scales as floats, weights as f32.
// Included by cpu/isa files. `lane` is the first of the kLanes outputs of a tile that are read.
#pragma once

#include "kernels/packed_layout.h"
#include "kernels/simd/int8_dot.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

// Moves kFrom, the number of the lowest of a quant's high bits, to bit 4.
template <int kFrom>
LS_INLINE Bytes high_bits(Bytes bits, int mask) {
  if constexpr (kFrom < 4) {
    return bytes_mask(bytes_left(bits, 4 - kFrom), mask);
  } else {
    return bytes_mask(bytes_right(bits, kFrom - 4), mask);
  }
}

// Step kStep of a block's 32 k: quants of the k 8 kStep + 0 … 3 (w0) and 8 kStep + 4 … 7 (w1).
template <int kBits, int kStep>
LS_INLINE void load_quants(const unsigned char* block, int lane, Bytes* w0, Bytes* w1) {
  const unsigned char* from = block + 4 * lane;
  if constexpr (kBits == 8) {
    *w0 = bytes_load(from + 128 * kStep);
    *w1 = bytes_load(from + 128 * kStep + 64);
    return;
  }
  const Bytes both = bytes_load(from + 64 * kStep);
  *w0 = bytes_mask(both, 15);
  *w1 = bytes_mask(bytes_right(both, 4), 15);
  if constexpr (kBits == 5) {
    const Bytes bits = bytes_load(from + 256);
    *w0 = bytes_or(*w0, high_bits<2 * kStep>(bits, 0x10));
    *w1 = bytes_or(*w1, high_bits<2 * kStep + 1>(bits, 0x10));
  }
  if constexpr (kBits == 6) {
    const Bytes bits = bytes_load(from + 256 + 64 * (kStep / 2));
    *w0 = bytes_or(*w0, high_bits<4 * (kStep % 2)>(bits, 0x30));
    *w1 = bytes_or(*w1, high_bits<4 * (kStep % 2) + 2>(bits, 0x30));
  }
}

// A block's f32 scale and, in formats that have one, the min that is added to each weight.
struct Scales {
  Floats scale;
  Floats min;
};

LS_INLINE Scales load_head(const PackedLayout& layout, const unsigned char* head, int lane) {
  const Floats d = floats_f16(head + 2 * lane);
  return {d, layout.has_min ? floats_f16(head + 32 + 2 * lane) : d};
}

// The scales of 32 k from their super-block's head and their own bytes. Q6_K: its sub-scales are
// integers that belong to 16 k each, so the head is all.
template <WeightType kType>
LS_INLINE Scales block_scales(const Scales& head, const unsigned char* sub, int lane) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  if constexpr (kLayout.is_k && kLayout.has_min) {
    const Floats min = mul(head.min, floats_of(ints_u8(sub + kTileOutputs + lane)));
    return {mul(head.scale, floats_of(ints_u8(sub + lane))), mul(min, floats_set(-1.0f))};
  } else {
    return head;
  }
}

// How 32 k of one format lie in the scales region.
template <WeightType kType>
struct ScaleStream {
  static constexpr PackedLayout kLayout = packed_layout(kType);
  static constexpr int kHeadBytes = scale_head_bytes(kLayout);
  static constexpr int kParts = kLayout.is_k ? 8 : 1;  // of 32 k under one head
  static constexpr int kSubBytes = kLayout.is_k ? kSubScaleBytes : 0;
  static constexpr int kBytes = kHeadBytes + kParts * kSubBytes;
};

// Weights of 4 k as f32 to out[0], out[stride], …, in the arithmetic of dequantise_row.
LS_INLINE void unpack_4(Bytes quants, Floats bias, const Scales& s, bool has_min, float* out,
                        int stride) {
  for (int i = 0; i < 4; ++i) {
    const Floats product = mul(s.scale, sub(floats_of(ints_byte(quants, i)), bias));
    floats_store(out + i * stride, has_min ? add(product, s.min) : product);
  }
}

template <WeightType kType, int kStep>
LS_INLINE void unpack_step(const unsigned char* quants, int lane, const Scales& s, float* out,
                           int stride) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  const Floats bias = floats_set(static_cast<float>(kLayout.bias));
  Bytes w0, w1;
  load_quants<kLayout.bits, kStep>(quants, lane, &w0, &w1);
  float* to = out + 8 * kStep * stride;
  unpack_4(w0, bias, s, kLayout.has_min, to, stride);
  unpack_4(w1, bias, s, kLayout.has_min, to + 4 * stride, stride);
}

// Block `block` (32 k) of a tile as f32: out[i * stride + lane] = w[lane, 32 block + i].
template <WeightType kType>
void unpack_block(const unsigned char* tile, int64_t scales_at, int64_t block, float* out,
                  int stride) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  using Stream = ScaleStream<kType>;
  const unsigned char* quants = tile + block * kLayout.quant_bytes;
  const unsigned char* head = tile + scales_at + block / Stream::kParts * Stream::kBytes;
  const unsigned char* sub = head + Stream::kHeadBytes + block % Stream::kParts * Stream::kSubBytes;
  for (int lane = 0; lane < kTileOutputs; lane += kLanes) {
    Scales first = block_scales<kType>(load_head(kLayout, head, lane), sub, lane);
    Scales second = first;
    if constexpr (kType == WeightType::kQ6_K) {
      second.scale = mul(first.scale, floats_of(ints_i8(sub + kTileOutputs + lane)));
      first.scale = mul(first.scale, floats_of(ints_i8(sub + lane)));
    }
    unpack_step<kType, 0>(quants, lane, first, out + lane, stride);
    unpack_step<kType, 1>(quants, lane, first, out + lane, stride);
    unpack_step<kType, 2>(quants, lane, second, out + lane, stride);
    unpack_step<kType, 3>(quants, lane, second, out + lane, stride);
  }
}

// The same for `count` k from `begin` in the formats that are not quantised.
template <WeightType kType>
void unpack_plain(const unsigned char* tile, int64_t begin, int64_t count, float* out,
                  int stride) {
  constexpr int kBytes = packed_layout(kType).quant_bytes;
  for (int64_t i = 0; i < count; ++i) {
    const unsigned char* from = tile + (begin + i) * kBytes;
    for (int lane = 0; lane < kTileOutputs; lane += kLanes) {
      Floats w;
      if constexpr (kType == WeightType::kF32) {
        w = floats_load(reinterpret_cast<const float*>(from) + lane);
      } else if constexpr (kType == WeightType::kF16) {
        w = floats_f16(from + 2 * lane);
      } else {
        w = floats_bf16(from + 2 * lane);
      }
      floats_store(out + i * stride + lane, w);
    }
  }
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
