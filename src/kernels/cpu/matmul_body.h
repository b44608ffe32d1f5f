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

// A group of kTiles tiles x kRows rows is computed at once: rows share the unpacking of weights,
// tiles share the loads of activations; each pair holds an integer register for each digit and a
// float register.
#if defined(LS_TARGET_AVX512)
constexpr int kInt8Tiles = 2;
constexpr int int8_rows(int /*digits*/) { return 4; }
#else
constexpr int kInt8Tiles = 1;
constexpr int int8_rows(int digits) { return digits == 1 ? 4 : 2; }
#endif

// What a group reads of the weights; the positions move on from block to block.
struct WeightCursor {
  const unsigned char* quants;
  const unsigned char* scales;
  int64_t tile_bytes;  // from one tile of the group to the next
  int lane;
};

// Adds steps kStep … kEnd - 1 (8 k each) of a block to the dots of a group.
template <int kBits, int kDigits, int kTiles, int kRows, int kStep, int kEnd>
LS_INLINE void dot_steps(const WeightCursor& w, const QuantisedBlock<kDigits>* x, int64_t stride,
                         Dot<kBits, kDigits> (*dot)[kRows]) {
  Bytes w0[kTiles], w1[kTiles];
  LS_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    load_quants<kBits, kStep>(w.quants + t * w.tile_bytes, w.lane, &w0[t], &w1[t]);
  }
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      const int step = kBits == 6 ? kStep % 2 : kStep;
      dot_add(dot[t][r], w0[t], w1[t], x[r * stride].digits[0] + 8 * kStep, step);
    }
  }
  if constexpr (kStep + 1 < kEnd) {
    dot_steps<kBits, kDigits, kTiles, kRows, kStep + 1, kEnd>(w, x, stride, dot);
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

// The exact dots of a block's 32 k.
template <WeightType kType, int kDigits, int kTiles, int kRows>
LS_INLINE void block_dots(const WeightCursor& w, const QuantisedBlock<kDigits>* x, int64_t stride,
                          Ints (*result)[kRows]) {
  constexpr int kBits = packed_layout(kType).bits;
  Dot<kBits, kDigits> dot[kTiles][kRows];
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Ints start = dot_start<kType>(x[r * stride].neg_sum);
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) dot[t][r] = dot_begin<kBits, kDigits>(start);
  }
  dot_steps<kBits, kDigits, kTiles, kRows, 0, 4>(w, x, stride, dot);
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) result[t][r] = dot_end(dot[t][r]);
  }
}

// Half a block of Q6_K: its dots times the half's sub-scales, added to result.
template <int kDigits, int kTiles, int kRows, int kHalf>
LS_INLINE void half_dots(const WeightCursor& w, const QuantisedBlock<kDigits>* x, int64_t stride,
                         Ints (*result)[kRows]) {
  Dot<6, kDigits> dot[kTiles][kRows];
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const QuantisedBlock<kDigits>& b = x[r * stride];
    const int32_t neg_sum = kHalf == 0 ? b.neg_sum_low : b.neg_sum - b.neg_sum_low;
    const Ints start = dot_start<WeightType::kQ6_K>(neg_sum);
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) dot[t][r] = dot_begin<6, kDigits>(start);
  }
  dot_steps<6, kDigits, kTiles, kRows, 2 * kHalf, 2 * kHalf + 2>(w, x, stride, dot);
  LS_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const unsigned char* sub = w.scales + t * w.tile_bytes + kHalf * kTileOutputs;
    const Ints scale = ints_i8(sub + w.lane);
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Ints product = mul(dot_end(dot[t][r]), scale);
      result[t][r] = kHalf == 0 ? product : add(result[t][r], product);
    }
  }
}

// One block of 32 k: the group's chains go on by one or two links.
template <WeightType kType, int kDigits, int kTiles, int kRows>
LS_INLINE void add_block(const WeightCursor& w, const Scales* head,
                         const QuantisedBlock<kDigits>* x, int64_t stride, Floats (*acc)[kRows]) {
  Ints dot[kTiles][kRows];
  if constexpr (kType == WeightType::kQ6_K) {
    half_dots<kDigits, kTiles, kRows, 0>(w, x, stride, dot);
    half_dots<kDigits, kTiles, kRows, 1>(w, x, stride, dot);
  } else {
    block_dots<kType, kDigits, kTiles, kRows>(w, x, stride, dot);
  }
  LS_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const Scales s = block_scales<kType>(head[t], w.scales + t * w.tile_bytes, w.lane);
    LS_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const QuantisedBlock<kDigits>& b = x[r * stride];
      acc[t][r] = fma(floats_of(dot[t][r]), mul(s.scale, floats_set(b.scale)), acc[t][r]);
      if constexpr (packed_layout(kType).has_min) {
        acc[t][r] = fma(s.min, floats_set(b.sum), acc[t][r]);
      }
    }
  }
}

// A group's products, kLanes outputs of each tile; blocks of 32 k ascending, one chain an output.
// Touches what lies prefetch_bytes ahead, so that the next tiles are on their way.
template <WeightType kType, int kDigits, int kTiles, int kRows>
void int8_group(WeightCursor w, int64_t blocks, int64_t prefetch_bytes,
                const QuantisedBlock<kDigits>* x, float* y, int64_t y_stride) {
  constexpr PackedLayout kLayout = packed_layout(kType);
  using Stream = ScaleStream<kType>;
  const int64_t stride = blocks;
  Floats acc[kTiles][kRows];
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) acc[t][r] = floats_set(0.0f);
  }
  for (int64_t left = blocks / Stream::kParts; left > 0; --left) {
    Scales head[kTiles];
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      head[t] = load_head(kLayout, w.scales + t * w.tile_bytes, w.lane);
      __builtin_prefetch(w.scales + t * w.tile_bytes + prefetch_bytes);
    }
    w.scales += Stream::kHeadBytes;
    for (int part = 0; part < Stream::kParts; ++part) {
      add_block<kType, kDigits, kTiles, kRows>(w, head, x, stride, acc);
      LS_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        LS_UNROLL
        for (int at = 0; at < kLayout.quant_bytes; at += 64) {
          __builtin_prefetch(w.quants + t * w.tile_bytes + prefetch_bytes + at);
        }
      }
      w.quants += kLayout.quant_bytes;
      w.scales += Stream::kSubBytes;
      ++x;
    }
  }
  LS_UNROLL
  for (int r = 0; r < kRows; ++r) {
    LS_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      floats_store(y + r * y_stride + t * kTileOutputs, acc[t][r]);
    }
  }
}

template <int kDigits>
using Int8Group = void (*)(WeightCursor, int64_t, int64_t, const QuantisedBlock<kDigits>*, float*,
                           int64_t);

// int8_group of `rows` rows, 1 … kRows.
template <WeightType kType, int kDigits, int kTiles, int kRows = int8_rows(kDigits)>
LS_INLINE Int8Group<kDigits> int8_group_of(int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return int8_group_of<kType, kDigits, kTiles, kRows - 1>(rows);
  }
  return int8_group<kType, kDigits, kTiles, kRows>;
}

LS_INLINE int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// Rows [rows.begin, rows.end) times kTiles tiles from `tile`. The last tile may have fewer outputs
// than 16: its results go through `part`.
template <WeightType kType, int kTiles, int kDigits>
LS_INLINE void int8_tiles(const PackedView& w, const QuantisedBlock<kDigits>* x, Range rows,
                          int64_t tile, float* y, int64_t y_stride) {
  constexpr int kInt8Rows = int8_rows(kDigits);
  constexpr int kOutputs = kTiles * kTileOutputs;
  const int64_t blocks = w.k / 32;
  const unsigned char* data = w.data + tile * w.tile_bytes;
  const unsigned char* scales = data + packed_quant_bytes(packed_layout(kType), w.k);
  const int64_t outputs = at_most(kOutputs, w.outputs - tile * kTileOutputs);
  for (int64_t r = rows.begin; r < rows.end; r += kInt8Rows) {
    const int64_t count = at_most(kInt8Rows, rows.end - r);
    const int64_t prefetch_bytes = r == rows.begin ? kTiles * w.tile_bytes : 0;
    float part[kInt8Rows * kOutputs];
    float* whole = y + r * y_stride + tile * kTileOutputs;
    const bool direct = outputs == kOutputs;
    for (int lane = 0; lane < kTileOutputs; lane += kLanes) {
      const WeightCursor cursor{data, scales, w.tile_bytes, lane};
      int8_group_of<kType, kDigits, kTiles>(count)(cursor, blocks, prefetch_bytes, x + r * blocks,
                                                   (direct ? whole : part) + lane,
                                                   direct ? y_stride : kOutputs);
    }
    for (int64_t i = 0; i < count && !direct; ++i) {
      for (int64_t o = 0; o < outputs; ++o) whole[i * y_stride + o] = part[i * kOutputs + o];
    }
  }
}

// Rows whose quantised form stays in half of a 1 MiB second-level cache while tiles stream by.
constexpr int64_t kRowBlockBytes = 512 << 10;

template <WeightType kType, int kDigits>
void matmul_int8(const PackedView& w, const QuantisedBlock<kDigits>* x, Range rows, Range tiles,
                 float* y, int64_t y_stride) {
  constexpr int kInt8Rows = int8_rows(kDigits);
  const int64_t row_bytes = w.k / 32 * static_cast<int64_t>(sizeof *x);
  const int64_t groups = kRowBlockBytes / (row_bytes * kInt8Rows);
  const int64_t block_rows = (groups > 0 ? groups : 1) * kInt8Rows;
  for (int64_t r = rows.begin; r < rows.end; r += block_rows) {
    const Range some{r, at_most(r + block_rows, rows.end)};
    int64_t t = tiles.begin;
    for (; t + kInt8Tiles <= tiles.end; t += kInt8Tiles) {
      int8_tiles<kType, kInt8Tiles>(w, x, some, t, y, y_stride);
    }
    for (; t < tiles.end; ++t) int8_tiles<kType, 1>(w, x, some, t, y, y_stride);
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

// f32_panel of `rows` rows, 1 … kRows.
template <int kRows = kF32Rows>
LS_INLINE F32Panel f32_panel_of(int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return f32_panel_of<kRows - 1>(rows);
  }
  return f32_panel<kRows>;
}

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
          f32_panel_of(some)(panel, count, x.f32 + (r0 + r) * x.f32_stride + begin,
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
    if (x.q1 != nullptr) return matmul_int8<kType>(w, x.q1, rows, tiles, y, y_stride);
    if (x.q2 != nullptr) return matmul_int8<kType>(w, x.q2, rows, tiles, y, y_stride);
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
