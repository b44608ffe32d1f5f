#include "kernels/ref/vector_ref.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/formats/formats.h"

namespace lineshaft::kernels::ref {
namespace {

using Lanes = std::array<float, 16>;

float tree_sum(Lanes lanes) {
  for (size_t step = 8; step > 0; step /= 2) {
    for (size_t j = 0; j < step; ++j) lanes[j] += lanes[j + step];
  }
  return lanes[0];
}

size_t element_bytes(const AttentionShape& shape) { return shape.kv_type == KvType::kF16 ? 2 : 4; }

float read_element(const AttentionShape& shape, const std::byte* block, int64_t index) {
  const std::byte* at = block + shape.layer_offset + index * element_bytes(shape);
  if (shape.kv_type == KvType::kF32) {
    float value = 0.0f;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return f16_to_f32(bits);
}

void write_element(const AttentionShape& shape, std::byte* block, int64_t index, float value) {
  std::byte* at = block + shape.layer_offset + index * element_bytes(shape);
  if (shape.kv_type == KvType::kF32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

int64_t key_index(const AttentionShape& shape, int32_t slot, int32_t h, int32_t d) {
  const int64_t group = int64_t{h} * (shape.block_tokens / 16) + slot / 16;
  return (group * shape.head_dim + d) * 16 + slot % 16;
}

int64_t value_index(const AttentionShape& shape, int32_t slot, int32_t h, int32_t d) {
  const int64_t row = int64_t{shape.kv_heads + h} * shape.block_tokens + slot;
  return row * shape.head_dim + d;
}

// A running softmax: largest score, sums by lane, weighted sum of V.
struct State {
  float largest = std::numeric_limits<float>::lowest();
  Lanes lanes{};
  std::vector<float> values;
};

struct Row {
  const AttentionShape& shape;
  const AttentionSequence& sequence;
  const float* q;
  int32_t kv_head;
  int32_t begin, end;  // valid positions

  const std::byte* block(int32_t position) const {
    return sequence.blocks[position / shape.block_tokens];
  }
  float score(int32_t position) const {
    float dot = 0.0f;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      const int32_t slot = position % shape.block_tokens;
      dot = std::fmaf(q[d], stored_key(shape, block(position), slot, kv_head, d), dot);
    }
    return dot * shape.scale;
  }
  float value(int32_t position, int32_t d) const {
    return stored_value(shape, block(position), position % shape.block_tokens, kv_head, d);
  }
};

void add_tile(const Row& row, int32_t begin, int32_t end, State* state) {
  std::vector<float> scores;
  float largest = state->largest;
  for (int32_t p = begin; p < end; ++p) {
    scores.push_back(row.score(p));
    largest = std::max(largest, scores.back());
  }
  const float factor = exp_f32(state->largest - largest);
  state->largest = largest;
  for (float& lane : state->lanes) lane *= factor;
  for (float& value : state->values) value *= factor;
  for (int32_t p = begin; p < end; ++p) {
    const float weight = exp_f32(scores[static_cast<size_t>(p - begin)] - largest);
    state->lanes[static_cast<size_t>(p % 16)] += weight;
    for (int32_t d = 0; d < row.shape.head_dim; ++d) {
      float& sum = state->values[static_cast<size_t>(d)];
      sum = std::fmaf(weight, row.value(p, d), sum);
    }
  }
}

void merge(const State& segment, State* total) {
  const float largest = std::max(total->largest, segment.largest);
  const float a = exp_f32(total->largest - largest), b = exp_f32(segment.largest - largest);
  for (size_t i = 0; i < 16; ++i) {
    total->lanes[i] = std::fmaf(segment.lanes[i], b, total->lanes[i] * a);
  }
  for (size_t d = 0; d < total->values.size(); ++d) {
    total->values[d] = std::fmaf(segment.values[d], b, total->values[d] * a);
  }
  total->largest = largest;
}

void attend(const Row& row, float* out) {
  State total;
  total.values.assign(static_cast<size_t>(row.shape.head_dim), 0.0f);
  for (int32_t start = row.begin / 1024 * 1024; start < row.end; start += 1024) {
    State segment;
    segment.values.assign(total.values.size(), 0.0f);
    for (int32_t tile = start; tile < start + 1024; tile += 64) {
      const int32_t begin = std::max(tile, row.begin), end = std::min(tile + 64, row.end);
      if (begin < end) add_tile(row, begin, end, &segment);
    }
    merge(segment, &total);
  }
  const float inverse = 1.0f / tree_sum(total.lanes);
  for (size_t d = 0; d < total.values.size(); ++d) out[d] = total.values[d] * inverse;
}

}  // namespace

float stored_key(const AttentionShape& shape, const std::byte* block, int32_t slot, int32_t h,
                 int32_t d) {
  return read_element(shape, block, key_index(shape, slot, h, d));
}

float stored_value(const AttentionShape& shape, const std::byte* block, int32_t slot, int32_t h,
                   int32_t d) {
  return read_element(shape, block, value_index(shape, slot, h, d));
}

void store_kv(const AttentionShape& shape, std::byte* block, int32_t slot, const float* k,
              const float* v) {
  for (int32_t h = 0; h < shape.kv_heads; ++h) {
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      write_element(shape, block, key_index(shape, slot, h, d), k[h * shape.head_dim + d]);
      write_element(shape, block, value_index(shape, slot, h, d), v[h * shape.head_dim + d]);
    }
  }
}

void attention(const AttentionShape& shape, const AttentionSequence& sequence) {
  for (int32_t r = 0; r < sequence.rows; ++r) {
    for (int32_t h = 0; h < shape.heads; ++h) {
      const int32_t end = sequence.first + r + 1;
      const int32_t begin = shape.window > 0 ? std::max(0, end - shape.window) : 0;
      const int64_t column = int64_t{h} * shape.head_dim;
      const Row row{shape, sequence, sequence.q + r * sequence.q_stride + column,
                    h / (shape.heads / shape.kv_heads), begin, end};
      attend(row, sequence.out + r * sequence.out_stride + column);
    }
  }
}

void rms_norm(const float* x, const float* weight, float epsilon, int64_t n, float* out) {
  Lanes squares{};
  for (int64_t i = 0; i < n; ++i) {
    float& lane = squares[static_cast<size_t>(i % 16)];
    lane = std::fmaf(x[i], x[i], lane);
  }
  const float mean = tree_sum(squares) / static_cast<float>(n);
  const float factor = 1.0f / std::sqrt(mean + epsilon);
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + exp_f32(-gate[i])) * up[i];
}

void gelu_tanh_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float x = gate[i];
    const float cubic = std::fmaf(x * x * x, 0.044715f, x);
    out[i] = x / (1.0f + exp_f32(cubic * -1.59576912f)) * up[i];
  }
}

void rope(float* x, int32_t heads, int32_t head_dim, int32_t rope_dims, bool interleaved,
          const float* cos, const float* sin) {
  const int32_t n = rope_dims / 2;
  for (int32_t h = 0; h < heads; ++h) {
    for (int32_t i = 0; i < n; ++i) {
      float& a = x[h * head_dim + (interleaved ? 2 * i : i)];
      float& b = x[h * head_dim + (interleaved ? 2 * i + 1 : n + i)];
      const float turned_a = std::fmaf(a, cos[i], -(b * sin[i]));
      const float turned_b = std::fmaf(b, cos[i], a * sin[i]);
      a = turned_a;
      b = turned_b;
    }
  }
}

float log_sum_exp(const float* x, int64_t n) {
  float highest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) highest = x[i] > highest ? x[i] : highest;
  if (!std::isfinite(highest)) return highest;
  Lanes total{};
  for (int64_t i = 0; i < n; ++i) total[static_cast<size_t>(i % 16)] += exp_f32(x[i] - highest);
  return highest + log_f32(tree_sum(total));
}

int64_t argmax(const float* x, int64_t n) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
  }
  return std::max<int64_t>(best, 0);
}

}  // namespace lineshaft::kernels::ref
