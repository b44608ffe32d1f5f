// Matrix products with packed weights, int8 form and f32 form (backend.h states the order of
// additions). Included by cpu/isa files.
//
// Every number of rows runs the same code: a tile of rows shares the unpacking of the weights, and
// how many rows share it changes no row's additions.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/quantise_body.h"
#include "kernels/cpu/weights_body.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

#define LS_UNROLL _Pragma("GCC unroll 16")

// Rows that share the unpacked weights of a block: each holds an integer and a float register.
#if defined(LS_TARGET_AVX512)
constexpr int kInt8Rows = 8;
#else
constexpr int kInt8Rows = 4;
#endif

LS_INLINE const QuantisedBlock& row_block(const QuantisedBlock* x, int64_t stride, int row) {
  return x[row * stride];
}

// Adds steps kBegin … kEnd - 1 (8 k each) of a block to the dots of kRows rows.
template <int kBits, int kRows, int kStep, int kEnd>
LS_INLINE void dot_steps(const unsigned char* quants, int lane, const QuantisedBlock* x,
                         int64_t stride, Dot<kBits>* dot) {
  Bytes w0, w1;
  load_quants<kBits, kStep>(quants, lane, &w0, &w1);
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int step = kBits == 6 ? kStep % 2 : kStep;
    dot_add<kBits>(dot[r], w0, w1, row_block(x, stride, r).q + 8 * kStep, step);
  }
  if constexpr (kStep + 1 < kEnd) {
    dot_steps<kBits, kRows, kStep + 1, kEnd>(quants, lane, x, stride, dot);
  }
}

// Where a dot starts so that the quants' offset is undone: -bias times the sum of the row's q.
template <WeightType kType>
LS_INLINE Ints dot_start(int32_t neg_sum) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  if constexpr (kLayout.bias == 0 || (kLayout.bits == 8 && kSignedBytes)) {
    return ints_set(0);
  } else {
    return shift_left(ints_set(neg_sum), __builtin_ctz(kLayout.bias));
  }
}

// The exact dots of a block's 32 k; in Q6_K each half's dot times its sub-scale.
template <WeightType kType, int kRows>
LS_INLINE void block_dots(const unsigned char* quants, const unsigned char* sub, int lane,
                          const QuantisedBlock* x, int64_t stride, Ints* result) {
  constexpr int kBits = packed_layout(kType).bits;
  Dot<kBits> dot[kRows];
  if constexpr (kType == WeightType::kQ6_K) {
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      dot[r] = dot_begin<kBits>(dot_start<kType>(row_block(x, stride, r).neg_sum_low));
    }
    dot_steps<kBits, kRows, 0, 2>(quants, lane, x, stride, dot);
    const Ints first = ints_i8(sub + lane);
    const Ints second = ints_i8(sub + kTileOutputs + lane);
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const QuantisedBlock& b = row_block(x, stride, r);
      result[r] = mul(dot_end(dot[r]), first);
      dot[r] = dot_begin<kBits>(dot_start<kType>(b.neg_sum - b.neg_sum_low));
    }
    dot_steps<kBits, kRows, 2, 4>(quants, lane, x, stride, dot);
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) result[r] = add(result[r], mul(dot_end(dot[r]), second));
  } else {
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      dot[r] = dot_begin<kBits>(dot_start<kType>(row_block(x, stride, r).neg_sum));
    }
    dot_steps<kBits, kRows, 0, 4>(quants, lane, x, stride, dot);
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) result[r] = dot_end(dot[r]);
  }
}

// kRows rows x kLanes outputs of one tile; blocks of 32 k ascending, one chain an output.
template <WeightType kType, int kRows>
void int8_rows(const unsigned char* tile, int64_t scales_at, int lane, int64_t k,
               const QuantisedBlock* x, float* y, int64_t y_stride) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  using Stream = ScaleStream<kType>;
  const int64_t stride = k / 32;
  const unsigned char* quants = tile;
  const unsigned char* scales = tile + scales_at;
  Floats acc[kRows];
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) acc[r] = floats_set(0.0f);
  for (int64_t left = stride / Stream::kParts; left > 0; --left) {
    const Scales head = load_head(kLayout, scales, lane);
    scales += Stream::kHeadBytes;
    for (int part = 0; part < Stream::kParts; ++part) {
      Ints dot[kRows];
      block_dots<kType, kRows>(quants, scales, lane, x, stride, dot);
      const Scales s = block_scales<kType>(head, scales, lane);
      LS_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const QuantisedBlock& b = row_block(x, stride, r);
        acc[r] = fma(floats_of(dot[r]), mul(s.scale, floats_set(b.scale)), acc[r]);
        if constexpr (kLayout.has_min) acc[r] = fma(s.min, floats_set(b.sum), acc[r]);
      }
      quants += kLayout.quant_bytes;
      scales += Stream::kSubBytes;
      ++x;
    }
  }
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) floats_store(y + r * y_stride, acc[r]);
}

using Int8Rows = void (*)(const unsigned char*, int64_t, int, int64_t, const QuantisedBlock*,
                          float*, int64_t);

// int8_rows of 1 … kInt8Rows rows.
template <WeightType kType>
LS_INLINE Int8Rows int8_rows_of(int64_t rows) {
#if defined(LS_TARGET_AVX512)
  static constexpr Int8Rows kTable[kInt8Rows] = {
      int8_rows<kType, 1>, int8_rows<kType, 2>, int8_rows<kType, 3>, int8_rows<kType, 4>,
      int8_rows<kType, 5>, int8_rows<kType, 6>, int8_rows<kType, 7>, int8_rows<kType, 8>};
#else
  static constexpr Int8Rows kTable[kInt8Rows] = {int8_rows<kType, 1>, int8_rows<kType, 2>,
                                                 int8_rows<kType, 3>, int8_rows<kType, 4>};
#endif
  return kTable[rows - 1];
}

LS_INLINE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// Stores `rows` rows of a tile that has fewer than 16 outputs.
LS_INLINE void copy_outputs(const float* from, int64_t rows, int64_t outputs, float* y,
                            int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) y[r * y_stride + o] = from[r * kTileOutputs + o];
  }
}

// Rows whose quantised form stays in half of a 1 MiB second-level cache while tiles stream by.
constexpr int64_t kRowBlockBytes = 512 << 10;

template <WeightType kType>
void matmul_int8(const PackedView& w, const ActivationRows& x, Range rows, Range tiles, float* y,
                 int64_t y_stride) {
  const int64_t stride = w.k / 32;
  const int64_t row_bytes = stride * static_cast<int64_t>(sizeof(QuantisedBlock));
  const int64_t row_tiles = kRowBlockBytes / (row_bytes * kInt8Rows);
  const int64_t block_rows = (row_tiles > 0 ? row_tiles : 1) * kInt8Rows;
  const int64_t scales_at = packed_quant_bytes(packed_layout(kType), w.k);
  for (int64_t r0 = rows.begin; r0 < rows.end; r0 += block_rows) {
    const int64_t r1 = at_most(r0 + block_rows, rows.end);
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
      const unsigned char* tile = w.data + t * w.tile_bytes;
      const int64_t outputs = at_most(kTileOutputs, w.outputs - t * kTileOutputs);
      for (int64_t r = r0; r < r1; r += kInt8Rows) {
        const int64_t count = at_most(kInt8Rows, r1 - r);
        float part[kInt8Rows * kTileOutputs];
        float* to = y + r * y_stride + t * kTileOutputs;
        const bool whole = outputs == kTileOutputs;
        for (int lane = 0; lane < kTileOutputs; lane += kLanes) {
          int8_rows_of<kType>(count)(tile, scales_at, lane, w.k, x.q8 + r * stride,
                                     (whole ? to : part) + lane, whole ? y_stride : kTileOutputs);
        }
        if (!whole) copy_outputs(part, count, outputs, to, y_stride);
      }
    }
  }
}

// The f32 form works on panels of four tiles: chunks of kChunk k are unpacked to f32 in the first-
// level cache, then rows run over them; their sums wait in `acc` between chunks.
constexpr int kPanelOutputs = 4 * kTileOutputs;
constexpr int kChunk = 64;
constexpr int kPanelRows = 48;
#if defined(LS_TARGET_AVX512)
constexpr int kF32Vectors = 4;  // registers of outputs that share a broadcast
#else
constexpr int kF32Vectors = 2;
#endif
constexpr int kF32Rows = 6;

// acc[r][o] += sum over i of w[i][o] * x[r][i], i ascending, for kVectors registers of o.
template <int kVectors, int kRows>
LS_INLINE void f32_rows(const float* w, int64_t count, const float* x, int64_t x_stride,
                        float* acc) {
  Floats sum[kRows][kVectors];
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LS_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = floats_load(acc + r * kPanelOutputs + v * kLanes);
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    Floats weights[kVectors];
    LS_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = floats_load(w + i * kPanelOutputs + v * kLanes);
    }
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Floats activation = floats_set(x[r * x_stride + i]);
      LS_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(weights[v], activation, sum[r][v]);
    }
  }
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LS_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      floats_store(acc + r * kPanelOutputs + v * kLanes, sum[r][v]);
    }
  }
}

template <int kRows>
void f32_panel(const float* w, int64_t count, const float* x, int64_t x_stride, float* acc) {
  // One row alone would leave most of a multiplier's latency unused: it takes more registers.
  constexpr int kVectors = kRows == 1 ? kPanelOutputs / kLanes : kF32Vectors;
  for (int o = 0; o < kPanelOutputs; o += kVectors * kLanes) {
    f32_rows<kVectors, kRows>(w + o, count, x, x_stride, acc + o);
  }
}

using F32Panel = void (*)(const float*, int64_t, const float*, int64_t, float*);
constexpr F32Panel kF32Panels[kF32Rows] = {f32_panel<1>, f32_panel<2>, f32_panel<3>,
                                           f32_panel<4>, f32_panel<5>, f32_panel<6>};

// Weights of `count` k from `begin` of the panel's tiles: panel[i][16 t + o].
template <WeightType kType>
void unpack_panel(const PackedView& w, int64_t first_tile, int64_t tile_count, int64_t begin,
                  int64_t count, float* panel) {
  for (int64_t t = 0; t < tile_count; ++t) {
    const unsigned char* tile = w.data + (first_tile + t) * w.tile_bytes;
    float* to = panel + t * kTileOutputs;
    if constexpr (packed_layout(kType).bits == 0) {
      unpack_plain<kType>(tile, begin, count, to, kPanelOutputs);
    } else {
      const int64_t scales_at = packed_quant_bytes(packed_layout(kType), w.k);
      for (int64_t b = 0; b < count / 32; ++b) {
        unpack_block<kType>(tile, scales_at, begin / 32 + b, to + b * 32 * kPanelOutputs,
                            kPanelOutputs);
      }
    }
  }
}

template <WeightType kType>
void matmul_f32(const PackedView& w, const ActivationRows& x, Range rows, Range tiles, float* y,
                int64_t y_stride) {
  alignas(64) float panel[kChunk * kPanelOutputs] = {};
  alignas(64) float acc[kPanelRows * kPanelOutputs];
  for (int64_t t = tiles.begin; t < tiles.end; t += 4) {
    const int64_t tile_count = at_most(4, tiles.end - t);
    const int64_t outputs = at_most(tile_count * kTileOutputs, w.outputs - t * kTileOutputs);
    for (int64_t r0 = rows.begin; r0 < rows.end; r0 += kPanelRows) {
      const int64_t row_count = at_most(kPanelRows, rows.end - r0);
      memset(acc, 0, sizeof acc);
      for (int64_t begin = 0; begin < w.k; begin += kChunk) {
        const int64_t count = at_most(kChunk, w.k - begin);
        unpack_panel<kType>(w, t, tile_count, begin, count, panel);
        for (int64_t r = 0; r < row_count; r += kF32Rows) {
          const int64_t some = at_most(kF32Rows, row_count - r);
          kF32Panels[some - 1](panel, count, x.f32 + (r0 + r) * x.f32_stride + begin,
                               x.f32_stride, acc + r * kPanelOutputs);
        }
      }
      for (int64_t r = 0; r < row_count; ++r) {
        memcpy(y + (r0 + r) * y_stride + t * kTileOutputs, acc + r * kPanelOutputs,
               static_cast<size_t>(outputs) * sizeof(float));
      }
    }
  }
}

template <WeightType kType>
LS_INLINE void matmul_of(const PackedView& w, const ActivationRows& x, Range rows, Range tiles,
                         float* y, int64_t y_stride) {
  if constexpr (packed_layout(kType).bits != 0) {
    if (x.q8 != nullptr) return matmul_int8<kType>(w, x, rows, tiles, y, y_stride);
  }
  matmul_f32<kType>(w, x, rows, tiles, y, y_stride);
}

void matmul(const PackedMatrix& weights, const ActivationRows& x, Range rows, Range tiles, float* y,
            int64_t y_stride) {
  const PackedView w = weights.view();
  switch (w.type) {
    case WeightType::kF32: return matmul_of<WeightType::kF32>(w, x, rows, tiles, y, y_stride);
    case WeightType::kF16: return matmul_of<WeightType::kF16>(w, x, rows, tiles, y, y_stride);
    case WeightType::kBF16: return matmul_of<WeightType::kBF16>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ4_0: return matmul_of<WeightType::kQ4_0>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ4_1: return matmul_of<WeightType::kQ4_1>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ5_0: return matmul_of<WeightType::kQ5_0>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ5_1: return matmul_of<WeightType::kQ5_1>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ8_0: return matmul_of<WeightType::kQ8_0>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ4_K: return matmul_of<WeightType::kQ4_K>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ5_K: return matmul_of<WeightType::kQ5_K>(w, x, rows, tiles, y, y_stride);
    case WeightType::kQ6_K: return matmul_of<WeightType::kQ6_K>(w, x, rows, tiles, y, y_stride);
  }
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
