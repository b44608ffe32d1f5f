// The operations of a forward pass on flat memory, as a table of functions for one instruction set.
//
// Knows no model and no request. Every operation works on a share of its outputs, so that a team
// of threads can divide it; a share never changes a bit (docs/numerics.md, the law: an output
// element depends on its own row, the weights and the profile, on nothing else).
//
// All pointers are borrowed for the call. Rows are row-major f32 unless said otherwise. No
// function allocates; none fails (shapes were checked when the model was loaded).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_team.h"
#include "kernels/packed_matrix.h"
#include "kernels/types.h"

namespace lineshaft::kernels {

// 32 activations of one row as integers of one or two int8 digits: q = round-half-even(x * (qmax /
// amax)), in [-qmax, qmax], scale = amax / qmax; amax below 1e-30 counts as 0 and gives q = 0,
// scale = 0. One digit: qmax = 127, q = digits[0]. Two: qmax = 16319, q = 128 * digits[0] +
// digits[1] with digits[1] in [-64, 63]: 16319 is the largest q whose digits fit and whose products
// with any format's 32 weights fit in int32. The negated integer sums serve weight formats with an
// offset (a weight of q - 8 and the like).
template <int kDigits>
struct QuantisedBlock {
  float scale;
  float sum;             // scale * float(sum of q)
  int32_t neg_sum;       // -(sum of q)
  int32_t neg_sum_low;   // -(sum of the first 16 q)
  int8_t digits[kDigits][32];
};
static_assert(sizeof(QuantisedBlock<1>) == 48 && sizeof(QuantisedBlock<2>) == 80);

// Rows of activations, k long. `f32` is always there; at most one of the quantised forms is, in the
// int8 profiles, and is then what quantised weights are multiplied with. Row r of it begins at
// r * (k / 32); 16-byte aligned.
struct ActivationRows {
  const float* f32 = nullptr;
  int64_t f32_stride = 0;                 // floats between rows
  const QuantisedBlock<1>* q1 = nullptr;
  const QuantisedBlock<2>* q2 = nullptr;
  int64_t k = 0;
};

// Shape of an attention layer and of its part of a KV block.
//
// A layer's part of a block lies at block + layer_offset, elements of kv_type:
//   K: [kv_heads][block_tokens / 16][head_dim][16]   (16 positions lie in lanes)
//   V: [kv_heads][block_tokens][head_dim]
// and of kQ8, whose elements are int8, behind them f32 scales; K has one for each 32 components:
//   of K: [kv_heads][block_tokens / 16][ceil(head_dim / 32)][16], of V: [kv_heads][block_tokens]
struct AttentionShape {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;       // multiple of 16, at most 256
  int32_t block_tokens = 128; // multiple of 16
  int32_t window = 0;         // 0: all positions up to the own; w: the last w including the own
  float scale = 0.0f;
  KvType kv_type = KvType::kF16;
  int64_t layer_offset = 0;   // bytes from a block's start
};

// Scales of K of one position and kv head, one for each kKeyScaleDims components.
inline constexpr int32_t kKeyScaleDims = 32;
int32_t key_scales(const AttentionShape& shape);

// Bytes of one layer's K and V of one block.
int64_t kv_layer_bytes(const AttentionShape& shape);

// The rows of one sequence in this step: positions first, first + 1, …, first + rows - 1.
struct AttentionSequence {
  const float* q = nullptr;     // [rows, heads * head_dim], RoPE applied
  int64_t q_stride = 0;
  float* out = nullptr;         // [rows, heads * head_dim]
  int64_t out_stride = 0;
  int32_t first = 0;
  int32_t rows = 0;
  const std::byte* const* blocks = nullptr;  // start of each block, in table order
};

// Order of additions, by operation ("chain": one accumulator, ascending, fused multiply-add):
//   matmul f32    a chain over k.
//   matmul int8   a chain over blocks of 32 (Q6_K too: its two halves' integer dots are weighted
//                 by their integer sub-scales first): with idot the exact integer dot,
//                 acc = fma(float(idot), w_scale * x_scale, acc), then for formats with a minimum
//                 acc = fma(w_min, x_sum, acc). w_scale and w_min are rounded to f32 once.
//   rms_norm, log_sum_exp   16 virtual lanes (element i in lane i mod 16), each a chain, joined by
//                 the tree of f32x16 (lane j with j + 8, then + 4, + 2, + 1).
//   attention     see docs/numerics.md N4: scores are chains over head_dim; tiles of 64 absolute
//                 positions, online softmax; segments of 1,024 absolute positions merged in
//                 ascending order; the weighted sum of V is a chain over positions in a tile.
struct Kernels {
  Isa isa;

  // One row: x[k] f32 → out[k / 32]. k is a multiple of 32.
  void (*quantise_row_1)(const float* x, int64_t k, QuantisedBlock<1>* out);
  void (*quantise_row_2)(const float* x, int64_t k, QuantisedBlock<2>* out);

  // y[r, o] = sum over k of w[o, k] * x[r, k], for rows [rows.begin, rows.end) and the outputs of
  // tiles [tiles.begin, tiles.end) of 16. y is indexed by absolute row and output; y_stride in
  // floats. `x.q1` or `x.q2` set and w quantised: the int8 form, else the f32 form.
  void (*matmul)(const PackedMatrix& w, const ActivationRows& x, Range rows, Range tiles, float* y,
                 int64_t y_stride);

  // out[i] = x[i] * rsqrt(mean(x^2) + epsilon) * weight[i]; out may be x. 1 / sqrt is IEEE.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, int64_t n, float* out);

  void (*add)(float* x, const float* y, int64_t n);                    // x += y
  void (*scale)(float* x, float factor, int64_t n);                    // x *= factor
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t n, float* out);

  // Rotates `heads` heads of one row in place. cos, sin: [rope_dims / 2] of the row's position.
  // interleaved: pairs (2i, 2i + 1), else (i, i + rope_dims / 2).
  void (*rope)(float* x, int32_t heads, int32_t head_dim, int32_t rope_dims, bool interleaved,
               const float* cos, const float* sin);

  // Writes one position's K and V ([kv_heads * head_dim] each) to slot `slot` of a block, rounded
  // to kv_type.
  void (*store_kv)(const AttentionShape& shape, std::byte* block, int32_t slot, const float* k,
                   const float* v);

  // Queries of a sequence are numbered kv_head-major: index = (kv_head * rows + row) * group +
  // member with group = heads / kv_heads; this call computes indices [queries.begin,
  // queries.end). scratch: attention_scratch_floats(shape) floats, 64-byte aligned.
  void (*attention)(const AttentionShape& shape, const AttentionSequence& sequence, Range queries,
                    float* scratch);

  // One kv head of sequences of one row each, which begin with the same blocks: K and V of
  // positions below `shared` are read once for up to twelve queries. `first` ascends from sequence
  // to sequence; shared is a multiple of 64 and at most the lowest `first`. Query index =
  // sequence * group + member; this call computes [queries.begin, queries.end). The bits are those
  // of `attention`.
  void (*attention_shared)(const AttentionShape& shape, const AttentionSequence* sequences,
                           int32_t shared, int32_t kv_head, Range queries, float* scratch);

  // ln of the sum of e^x over n values.
  float (*log_sum_exp)(const float* x, int64_t n);
  // Index of the largest value, the lowest such index; NaN never wins.
  int64_t (*argmax)(const float* x, int64_t n);
};

// Positions of a tile of attention; `shared` above is a multiple of it.
inline constexpr int32_t kAttentionTile = 64;
int64_t attention_scratch_floats(const AttentionShape& shape);

// The best instruction set this CPU has.
Isa best_isa();
bool cpu_has(Isa isa);
// The table of `isa`; cpu_has(isa) must hold.
const Kernels& kernels_for(Isa isa);

// cos and sin of position * inv_freq[i] * position_scale, angles in double, by our own series
// (no libm: its bits differ between CPUs). One row of n pairs.
void rope_angles(int32_t position, std::span<const double> inv_freq, double position_scale,
                 float* cos, float* sin);
// base^(-2 i / rope_dims) for i in [0, rope_dims / 2), by our own exp and log in double.
void rope_inv_freq(double base, int32_t rope_dims, std::span<double> out);

// e^x and ln x as the kernels compute them, one value: equal bits on every machine.
float exp_f32(float x);
float log_f32(float x);

}  // namespace lineshaft::kernels
