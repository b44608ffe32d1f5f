// Attention over paged KV for one target. The order of every operation: docs/numerics.md, N4.
//
// Several queries that share a kv head are worked on at once, so that each load (and conversion)
// of K and V serves all of them; every query keeps its own accumulators, so its bits do not know
// its neighbours. For cpu/table_body.h only.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/attention_scratch.h"
#include "kernels/simd/exp.h"
#include "kernels/simd/f32x16.h"

namespace lineshaft::kernels::LS_TARGET {
namespace {

// Queries at once whose accumulators (and a row of B and a broadcast of A) fit the registers: 32 of
// 16 lanes in AVX-512, 16 of 8 lanes in AVX2. With fewer queries a strip of B is up to four rows of
// lanes wide, as long as that many accumulators of 16 lanes do not spill.
#if defined(LS_TARGET_AVX512)
constexpr int kQueriesMax = kAttentionQueriesMax;
constexpr int kAccumulatorsWide = 24;
#elif defined(LS_TARGET_AVX2)
constexpr int kQueriesMax = 6;
constexpr int kAccumulatorsWide = 4;
#else
constexpr int kQueriesMax = 4;
constexpr int kAccumulatorsWide = 4;
#endif

constexpr int kTile = kAttentionTile;
constexpr int kTileGroups = kTile / 16;
constexpr int kSegment = 1024;
constexpr float kLowest = -3.40282347e+38f;  // of a state that has seen nothing

// The running softmax of some queries: largest score, sums by lane, weighted sum of V.
struct Softmax {
  float* largest;  // [queries]
  float* lanes;    // [queries][16]
  float* values;   // [queries][kAttentionRowStride]
};

struct QueryBlock {
  int queries;
  int32_t begin[kAttentionQueriesMax];  // valid positions of each query: [begin, end),
  int32_t end[kAttentionQueriesMax];    // both ascending from query to query
  float* q;                             // [queries][kAttentionRowStride]
  float* p;                             // the same, 64 of a row used: scores, then weights
  Softmax segment;
  Softmax total;
};

constexpr int width_for(int queries) {
  const int width = kAccumulatorsWide / queries;
  return width >= 4 ? 4 : width >= 2 ? 2 : 1;
}

// The right side of a product: columns in sixteens, b[v][t * step + lane] for t < count.
template <typename Element>
struct Columns {
  const Element* const* b;
  int vectors;
  int64_t step;
  int count;
  int64_t ahead_bytes;  // from a row of b to its like in the next tile, or 0
  const float* const* scales;  // [vectors][16], or null: what the sums are multiplied with
};

// The hardware's prefetcher does not follow streams as short as a tile's: asking for the next tile
// row by row makes decode from memory three times as fast (10.8 to 34 GB/s on Zen 5), and twelve
// queries behind a shared prompt a quarter. All at once is no help: the requests then queue up in
// front of the loads.
template <typename Element>
LS_INLINE void prefetch_ahead(const Element* row, int64_t bytes) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(row) + static_cast<uintptr_t>(bytes);
  __builtin_prefetch(reinterpret_cast<const void*>(address));
}

// c[i][0 .. 16 kWidth) = (fresh ? 0 : c) + sum over t < count, ascending, of
// a[i][t] * b[v + w][t * step + lane]. Rows of a and c are kAttentionRowStride apart.
// With kScaled the sum is from 0, and c = fma(sum, scales, fresh ? 0 : c).
template <int kQueries, int kWidth, bool kScaled, typename Element>
LS_INLINE void multiply_strip(const float* a, const Columns<Element>& columns, int v, bool fresh,
                              float* c) {
  f32x16 sums[kQueries][kWidth];
  const Element* from[kWidth];
#pragma GCC unroll 4
  for (int w = 0; w < kWidth; ++w) from[w] = columns.b[v + w];
#pragma GCC unroll 12
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int w = 0; w < kWidth; ++w) {
      sums[i][w] = kScaled || fresh ? set(0.0f) : load(c + i * kAttentionRowStride + 16 * w);
    }
  }
  const int64_t step = columns.step, ahead_bytes = columns.ahead_bytes;
  const int count = columns.count;
  for (int t = 0; t < count; ++t) {
    f32x16 row[kWidth];
#pragma GCC unroll 4
    for (int w = 0; w < kWidth; ++w) {
      row[w] = load(from[w] + t * step);
      prefetch_ahead(from[w] + t * step, ahead_bytes);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kQueries; ++i) {
      const f32x16 factor = set(a[i * kAttentionRowStride + t]);
#pragma GCC unroll 4
      for (int w = 0; w < kWidth; ++w) sums[i][w] = fma(factor, row[w], sums[i][w]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 4
    for (int w = 0; w < kWidth; ++w) {
      float* to = c + i * kAttentionRowStride + 16 * w;
      if (kScaled) {
        const f32x16 before = fresh ? set(0.0f) : load(to);
        sums[i][w] = fma(sums[i][w], load(columns.scales[v + w]), before);
      }
      store(to, sums[i][w]);
    }
  }
}

// The same for all columns.
template <int kQueries, bool kScaled, typename Element>
void multiply_rows(const float* a, const Columns<Element>& columns, bool fresh, float* c) {
  constexpr int kWidth = width_for(kQueries);
  int v = 0;
  for (; v + kWidth <= columns.vectors; v += kWidth) {
    multiply_strip<kQueries, kWidth, kScaled>(a, columns, v, fresh, c + 16 * v);
  }
  for (; v < columns.vectors; ++v) {
    multiply_strip<kQueries, 1, kScaled>(a, columns, v, fresh, c + 16 * v);
  }
}

template <bool kScaled, typename Element, int kQueries = kQueriesMax>
void multiply(int queries, const float* a, const Columns<Element>& columns, bool fresh, float* c) {
  if (queries == kQueries) {
    multiply_rows<kQueries, kScaled>(a, columns, fresh, c);
  } else if constexpr (kQueries > 1) {
    multiply<kScaled, Element, kQueries - 1>(queries, a, columns, fresh, c);
  }
}

// Where a kv head's K and V of a position's group of 16 lie.
template <typename Element>
struct HeadView {
  const AttentionShape& shape;
  const std::byte* const* blocks;
  int32_t kv_head;
  int32_t end;  // positions below lie in the blocks

  const Element* part(int32_t position) const {
    const std::byte* block = blocks[position / shape.block_tokens];
    return reinterpret_cast<const Element*>(block + shape.layer_offset);
  }
  // [head_dim][16] of the group that `position`, a multiple of 16, begins.
  const Element* keys(int32_t position) const {
    const int64_t slot = position % shape.block_tokens;
    return part(position) + (int64_t{kv_head} * shape.block_tokens + slot) * shape.head_dim;
  }
  // [head_dim] of a position; the following positions of the block follow.
  const Element* values(int32_t position) const {
    const int64_t slot = position % shape.block_tokens;
    const int64_t head = int64_t{shape.kv_heads} + kv_head;
    return part(position) + (head * shape.block_tokens + slot) * shape.head_dim;
  }
  // Only where has_scales: K's, [key_scales][16], of the group that `position`, a multiple of 16,
  // begins.
  const float* key_scales_of(int32_t position) const {
    const int64_t elements = int64_t{2} * shape.kv_heads * shape.block_tokens * shape.head_dim;
    const float* all = reinterpret_cast<const float*>(part(position) + elements);
    const int64_t slot = position % shape.block_tokens;
    return all + (int64_t{kv_head} * shape.block_tokens + slot) * key_scales(shape);
  }
  // And V's, of the sixteen positions.
  const float* value_scales_of(int32_t position) const {
    const int64_t elements = int64_t{2} * shape.kv_heads * shape.block_tokens * shape.head_dim;
    const float* all = reinterpret_cast<const float*>(part(position) + elements);
    const int64_t slot = position % shape.block_tokens;
    const int64_t rows = int64_t{shape.kv_heads} * key_scales(shape) + kv_head;
    return all + rows * shape.block_tokens + slot;
  }
};

template <typename Element>
constexpr bool has_scales = false;
template <>
constexpr bool has_scales<int8_t> = true;

int64_t bytes_between(const void* a, const void* b) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(b) - reinterpret_cast<uintptr_t>(a));
}

int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

void reset(const Softmax& state, int queries, int head_dim) {
  for (int i = 0; i < queries; ++i) {
    state.largest[i] = kLowest;
    store(state.lanes + 16 * i, set(0.0f));
    for (int d = 0; d < head_dim; d += 16) {
      store(state.values + i * kAttentionRowStride + d, set(0.0f));
    }
  }
}

void rescale(float* values, f32x16 factor, int head_dim) {
  for (int d = 0; d < head_dim; d += 16) store(values + d, mul(load(values + d), factor));
}

// Scores of the tile's positions [begin, end) (multiples of 16 around what any query needs).
template <typename Element>
void tile_scores(const HeadView<Element>& view, const QueryBlock& block, int32_t tile,
                 int32_t begin, int32_t end) {
  const Element* keys[kTileGroups];
  int groups = 0;
  for (int32_t position = begin; position < end; position += 16) {
    keys[groups++] = view.keys(position);
  }
  const int32_t next = begin + kTile;
  const bool more = next < view.end;
  const int64_t ahead = more ? bytes_between(keys[0], view.keys(next)) : 0;
  float* scores = block.p + (begin - tile);
  if constexpr (has_scales<Element>) {
    const float* scales[kTileGroups];
    for (int g = 0; g < groups; ++g) scales[g] = view.key_scales_of(begin + 16 * g);
    for (int32_t d = 0; d < view.shape.head_dim; d += kKeyScaleDims) {
      const int count = smaller(kKeyScaleDims, view.shape.head_dim - d);
      const Columns<Element> columns = {keys, groups, 16, count, ahead, scales};
      multiply<true>(block.queries, block.q + d, columns, d == 0, scores);
      for (int g = 0; g < groups; ++g) {
        keys[g] += 16 * kKeyScaleDims;
        scales[g] += 16;
      }
    }
  } else {
    const Columns<Element> columns = {keys, groups, 16, view.shape.head_dim, ahead, nullptr};
    multiply<false>(block.queries, block.q, columns, true, scores);
  }
}

LS_INLINE Mask16 valid_lanes(int group, int from, int to) {
  const int first = smaller(larger(from - 16 * group, 0), 16);
  return lanes(first, smaller(larger(to - 16 * group, first), 16));
}

// Scores of one query → weights relative to its new largest score; [from, to) of the tile is
// valid, all of it with kAll. With kScaled, the weights that are left in p are multiplied with
// value_scales, [64]; where nothing is valid, that may be anything.
template <bool kAll, bool kScaled>
LS_INLINE void tile_softmax(const Softmax& state, int i, float* p, const float* value_scales,
                            float scale, int from, int to, int head_dim) {
  f32x16 scores[kTileGroups];
#pragma GCC unroll 4
  for (int g = 0; g < kTileGroups; ++g) {
    scores[g] = mul(load(p + 16 * g), set(scale));
    if (!kAll) scores[g] = select(valid_lanes(g, from, to), scores[g], set(kLowest));
  }
  const float tile_largest = largest(max(max(scores[0], scores[1]), max(scores[2], scores[3])));
  const float old_largest = state.largest[i];
  f32x16 sums = load(state.lanes + 16 * i);
  float new_largest = old_largest;
  if (tile_largest > old_largest) {  // else the factor is e^0 = 1, which changes nothing
    new_largest = tile_largest;
    const f32x16 factor = exp(set(old_largest - new_largest));
    sums = mul(sums, factor);
    rescale(state.values + i * kAttentionRowStride, factor, head_dim);
    state.largest[i] = new_largest;
  }
#pragma GCC unroll 4
  for (int g = 0; g < kTileGroups; ++g) {
    f32x16 weights = exp(sub(scores[g], set(new_largest)));
    if (!kAll) weights = select(valid_lanes(g, from, to), weights, set(0.0f));
    sums = add(sums, weights);
    if (kScaled) weights = mul(weights, load(value_scales + 16 * g));
    store(p + 16 * g, weights);
  }
  store(state.lanes + 16 * i, sums);
}

// Adds weights * V of positions [begin, end), all valid for queries [low, high).
template <typename Element>
void add_values(const HeadView<Element>& view, const QueryBlock& block, int32_t tile, int low,
                int high, int32_t begin, int32_t end) {
  const int vectors = view.shape.head_dim / 16;
  while (begin < end) {
    const int32_t block_end = (begin / view.shape.block_tokens + 1) * view.shape.block_tokens;
    const int32_t stop = smaller(end, block_end);
    const Element* values[kAttentionHeadDimMax / 16];
    for (int v = 0; v < vectors; ++v) values[v] = view.values(begin) + 16 * v;
    const int32_t next = begin + kTile;
    const bool more = next < view.end;
    const int64_t ahead = more ? bytes_between(values[0], view.values(next)) : 0;
    const Columns<Element> columns = {values,       vectors, view.shape.head_dim,
                                      stop - begin, ahead,   nullptr};
    const int64_t row = low * kAttentionRowStride;
    multiply<false>(high - low, block.p + row + (begin - tile), columns, false,
                    block.segment.values + row);
    begin = stop;
  }
}

// V of the tile's positions [begin, end) in runs within which the set of valid queries is the same:
// a contiguous range, as begins and ends ascend.
template <typename Element>
void tile_values(const HeadView<Element>& view, const QueryBlock& block, int32_t tile,
                 int32_t begin, int32_t end) {
  int low = 0, high = 0;
  while (begin < end) {
    while (block.end[low] <= begin) ++low;
    while (high < block.queries && block.begin[high] <= begin) ++high;
    int32_t stop = smaller(end, block.end[low]);
    if (high < block.queries) stop = smaller(stop, block.begin[high]);
    add_values(view, block, tile, low, high, begin, stop);
    begin = stop;
  }
}

template <typename Element>
void attend_tile(const HeadView<Element>& view, const QueryBlock& block, int32_t tile) {
  const int32_t begin = larger(tile, block.begin[0]);
  const int32_t end = smaller(tile + kTile, block.end[block.queries - 1]);
  const int32_t first = begin / 16 * 16, last = (end + 15) / 16 * 16;
  constexpr bool kScaled = has_scales<Element>;
  float scales[kTile];  // copied: a tile may lie in several blocks, and its ends in none
  if constexpr (kScaled) {
    for (int32_t position = first; position < last; position += 16) {
      store(scales + (position - tile), load(view.value_scales_of(position)));
    }
  }
  tile_scores(view, block, tile, first, last);
  for (int i = 0; i < block.queries; ++i) {
    const int32_t from = larger(tile, block.begin[i]);
    const int32_t to = smaller(tile + kTile, block.end[i]);
    float* p = block.p + i * kAttentionRowStride;
    if (to - from == kTile) {
      tile_softmax<true, kScaled>(block.segment, i, p, scales, view.shape.scale, 0, kTile,
                                  view.shape.head_dim);
    } else if (from < to) {
      tile_softmax<false, kScaled>(block.segment, i, p, scales, view.shape.scale, from - tile,
                                   to - tile, view.shape.head_dim);
    }
  }
  tile_values(view, block, tile, begin, end);
}

// total of query i = total and segment together.
void merge(const Softmax& total, const Softmax& segment, int i, int head_dim) {
  const float a = total.largest[i], b = segment.largest[i];
  const float both = a > b ? a : b;
  const f32x16 a_factor = exp(set(a - both)), b_factor = exp(set(b - both));
  const f32x16 a_lanes = mul(load(total.lanes + 16 * i), a_factor);
  store(total.lanes + 16 * i, fma(load(segment.lanes + 16 * i), b_factor, a_lanes));
  float* a_values = total.values + i * kAttentionRowStride;
  const float* b_values = segment.values + i * kAttentionRowStride;
  for (int d = 0; d < head_dim; d += 16) {
    store(a_values + d, fma(load(b_values + d), b_factor, mul(load(a_values + d), a_factor)));
  }
  total.largest[i] = both;
}

// Ends a segment: merges it into the total of each query that has positions in [start, stop).
void close_segment(const QueryBlock& block, int32_t start, int32_t stop, int head_dim) {
  for (int i = 0; i < block.queries; ++i) {
    if (block.begin[i] < stop && block.end[i] > start) {
      merge(block.total, block.segment, i, head_dim);
    }
  }
  reset(block.segment, block.queries, head_dim);
}

// The tiles of view's positions from `begin` on. A segment that goes on behind view.end for a query
// stays open.
template <typename Element>
void attend_tiles(const HeadView<Element>& view, const QueryBlock& block, int32_t begin) {
  for (int32_t start = begin / kSegment * kSegment; start < view.end; start += kSegment) {
    const int32_t stop = smaller(view.end, start + kSegment);
    for (int32_t tile = larger(start, begin / kTile * kTile); tile < stop; tile += kTile) {
      attend_tile(view, block, tile);
    }
    if (stop == start + kSegment || stop == block.end[block.queries - 1]) {
      close_segment(block, start, stop, view.shape.head_dim);
    }
  }
}

QueryBlock lay_out(float* scratch) {
  constexpr int kRows = kAttentionQueriesMax * kAttentionRowStride;
  QueryBlock block;
  block.q = scratch;
  block.p = block.q + kRows;
  block.segment.values = block.p + kRows;
  block.total.values = block.segment.values + kRows;
  block.segment.lanes = block.total.values + kRows;
  block.total.lanes = block.segment.lanes + 16 * kAttentionQueriesMax;
  block.segment.largest = block.total.lanes + 16 * kAttentionQueriesMax;
  block.total.largest = block.segment.largest + 16;
  return block;
}

// A row's head of a sequence as query i of the block.
void place_query(const AttentionShape& shape, const AttentionSequence& sequence, int64_t row,
                 int64_t head, int i, QueryBlock* block) {
  const float* q = sequence.q + row * sequence.q_stride + head * shape.head_dim;
  memcpy(block->q + i * kAttentionRowStride, q, sizeof(float) * shape.head_dim);
  block->end[i] = sequence.first + static_cast<int32_t>(row) + 1;
  block->begin[i] = shape.window > 0 ? larger(0, block->end[i] - shape.window) : 0;
}

void write_query(const AttentionShape& shape, const AttentionSequence& sequence, int64_t row,
                 int64_t head, int i, const QueryBlock& block) {
  float* out = sequence.out + row * sequence.out_stride + head * shape.head_dim;
  const float* values = block.total.values + i * kAttentionRowStride;
  const f32x16 inverse = set(1.0f / sum(load(block.total.lanes + 16 * i)));
  for (int32_t d = 0; d < shape.head_dim; d += 16) store(out + d, mul(load(values + d), inverse));
}

// Queries first, … of one kv head (numbered within it), as many as the block takes.
template <typename Element>
void attend(const AttentionShape& shape, const AttentionSequence& sequence, int32_t kv_head,
            int64_t first, QueryBlock* block) {
  const int32_t group = shape.heads / shape.kv_heads;
  const int count = block->queries;
  for (int i = 0; i < count; ++i) {
    const int64_t head = int64_t{kv_head} * group + (first + i) % group;
    place_query(shape, sequence, (first + i) / group, head, i, block);
  }
  reset(block->total, count, shape.head_dim);
  reset(block->segment, count, shape.head_dim);
  const HeadView<Element> view = {shape, sequence.blocks, kv_head, block->end[count - 1]};
  attend_tiles(view, *block, block->begin[0]);
  for (int i = 0; i < count; ++i) {
    const int64_t head = int64_t{kv_head} * group + (first + i) % group;
    write_query(shape, sequence, (first + i) / group, head, i, *block);
  }
}

// Queries [low, high) of a block as one of its own, on the same memory.
QueryBlock part_of(const QueryBlock& block, int low, int high) {
  QueryBlock part = block;
  part.queries = high - low;
  for (int i = low; i < high; ++i) {
    part.begin[i - low] = block.begin[i];
    part.end[i - low] = block.end[i];
  }
  part.q += low * kAttentionRowStride;
  part.p += low * kAttentionRowStride;
  for (Softmax* state : {&part.segment, &part.total}) {
    state->largest += low;
    state->lanes += 16 * low;
    state->values += low * kAttentionRowStride;
  }
  return part;
}

// The same for sequences of one row: the shared positions for all queries, then each sequence's
// own.
template <typename Element>
void attend_shared(const AttentionShape& shape, const AttentionSequence* sequences, int32_t shared,
                   int32_t kv_head, int64_t first, QueryBlock* block) {
  const int32_t group = shape.heads / shape.kv_heads;
  const int count = block->queries;
  for (int i = 0; i < count; ++i) {
    const int64_t head = int64_t{kv_head} * group + (first + i) % group;
    place_query(shape, sequences[(first + i) / group], 0, head, i, block);
  }
  reset(block->total, count, shape.head_dim);
  reset(block->segment, count, shape.head_dim);
  const AttentionSequence& any = sequences[first / group];
  attend_tiles(HeadView<Element>{shape, any.blocks, kv_head, shared}, *block, block->begin[0]);
  for (int low = 0; low < count;) {
    const int64_t left = group - (first + low) % group;
    const int high = left < count - low ? low + static_cast<int>(left) : count;
    const QueryBlock part = part_of(*block, low, high);
    const AttentionSequence& own = sequences[(first + low) / group];
    const HeadView<Element> view = {shape, own.blocks, kv_head, part.end[0]};
    attend_tiles(view, part, larger(shared, part.begin[0]));
    low = high;
  }
  for (int i = 0; i < count; ++i) {
    const int64_t head = int64_t{kv_head} * group + (first + i) % group;
    write_query(shape, sequences[(first + i) / group], 0, head, i, *block);
  }
}

int block_queries(int64_t left) {
  return left < kQueriesMax ? static_cast<int>(left) : kQueriesMax;
}

void attention(const AttentionShape& shape, const AttentionSequence& sequence, Range queries,
               float* scratch) {
  QueryBlock block = lay_out(scratch);
  const int64_t per_head = int64_t{sequence.rows} * (shape.heads / shape.kv_heads);
  for (int64_t index = queries.begin; index < queries.end; index += block.queries) {
    const int32_t kv_head = static_cast<int32_t>(index / per_head);
    const int64_t first = index % per_head;
    const int64_t left = queries.end - index;
    block.queries = block_queries(left < per_head - first ? left : per_head - first);
    switch (shape.kv_type) {
      case KvType::kF32: attend<float>(shape, sequence, kv_head, first, &block); break;
      case KvType::kF16: attend<uint16_t>(shape, sequence, kv_head, first, &block); break;
      case KvType::kBF16: attend<BF16>(shape, sequence, kv_head, first, &block); break;
      case KvType::kQ8: attend<int8_t>(shape, sequence, kv_head, first, &block); break;
    }
  }
}

void attention_shared(const AttentionShape& shape, const AttentionSequence* sequences,
                      int32_t shared, int32_t kv_head, Range queries, float* scratch) {
  QueryBlock block = lay_out(scratch);
  for (int64_t first = queries.begin; first < queries.end; first += block.queries) {
    block.queries = block_queries(queries.end - first);
    switch (shape.kv_type) {
      case KvType::kF32:
        attend_shared<float>(shape, sequences, shared, kv_head, first, &block);
        break;
      case KvType::kF16:
        attend_shared<uint16_t>(shape, sequences, shared, kv_head, first, &block);
        break;
      case KvType::kBF16:
        attend_shared<BF16>(shape, sequences, shared, kv_head, first, &block);
        break;
      case KvType::kQ8:
        attend_shared<int8_t>(shape, sequences, shared, kv_head, first, &block);
        break;
    }
  }
}

}  // namespace
}  // namespace lineshaft::kernels::LS_TARGET
