#include "kernels/ref/vector_ref.h"

#include <algorithm>
#include <array>
#include <bit>
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

template <typename T>
T read_at(const AttentionShape& shape, const std::byte* block, int64_t offset) {
  T value{};
  std::memcpy(&value, block + shape.layer_offset + offset, sizeof value);
  return value;
}

template <typename T>
void write_at(const AttentionShape& shape, std::byte* block, int64_t offset, T value) {
  std::memcpy(block + shape.layer_offset + offset, &value, sizeof value);
}

// An element as f32; of q8 the integer.
float read_element(const AttentionShape& shape, const std::byte* block, int64_t index) {
  switch (shape.kv_type) {
    case KvType::kF32: return read_at<float>(shape, block, 4 * index);
    case KvType::kF16: return f16_to_f32(read_at<uint16_t>(shape, block, 2 * index));
    case KvType::kBF16: return bf16_to_f32(read_at<uint16_t>(shape, block, 2 * index));
    case KvType::kQ8: return read_at<int8_t>(shape, block, index);
  }
  return 0.0f;
}

// `factor` is for q8 only: what the row's values are multiplied with before they are rounded.
void write_element(const AttentionShape& shape, std::byte* block, int64_t index, float value,
                   float factor) {
  switch (shape.kv_type) {
    case KvType::kF32: return write_at(shape, block, 4 * index, value);
    case KvType::kF16: return write_at(shape, block, 2 * index, f32_to_f16(value));
    case KvType::kBF16: return write_at(shape, block, 2 * index, f32_to_bf16(value));
    case KvType::kQ8:
      return write_at(shape, block, index,
                      static_cast<int8_t>(std::bit_cast<uint32_t>(value * factor + 0x1.8p23f)));
  }
}

// Where the scales of q8 lie.
int64_t key_scale_offset(const AttentionShape& shape, int32_t slot, int32_t h, int32_t d) {
  const int64_t quants = int64_t{2} * shape.kv_heads * shape.block_tokens * shape.head_dim;
  const int64_t group = int64_t{h} * (shape.block_tokens / 16) + slot / 16;
  return quants + 4 * ((group * key_scales(shape) + d / 32) * 16 + slot % 16);
}

int64_t value_scale_offset(const AttentionShape& shape, int32_t slot, int32_t h) {
  const int64_t keys = int64_t{4} * shape.kv_heads * shape.block_tokens * key_scales(shape);
  return key_scale_offset(shape, 0, 0, 0) + keys + 4 * (int64_t{h} * shape.block_tokens + slot);
}

float read_scale(const AttentionShape& shape, const std::byte* block, int64_t offset) {
  return shape.kv_type == KvType::kQ8 ? read_at<float>(shape, block, offset) : 1.0f;
}

// Writes the scale of x[0 .. n) for q8; returns the factor for write_element.
float write_scale(const AttentionShape& shape, std::byte* block, int64_t offset, const float* x,
                  int32_t n) {
  if (shape.kv_type != KvType::kQ8) return 1.0f;
  float amax = 0.0f, scale = 0.0f, factor = 0.0f;
  bool numbers = true;
  for (int32_t d = 0; d < n; ++d) {
    numbers = numbers && std::isfinite(x[d]);
    amax = std::fabs(x[d]) > amax ? std::fabs(x[d]) : amax;
  }
  if (!numbers) {
    scale = std::numeric_limits<float>::quiet_NaN();
  } else if (!(amax < 1e-30f)) {
    scale = amax / 127.0f;
    factor = 127.0f / amax;
  }
  write_at(shape, block, offset, scale);
  return factor;
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
    const int32_t slot = position % shape.block_tokens;
    const bool scaled = shape.kv_type == KvType::kQ8;
    float dot = 0.0f, total = 0.0f;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      const int64_t index = key_index(shape, slot, kv_head, d);
      dot = std::fmaf(q[d], read_element(shape, block(position), index), dot);
      if (scaled && (d % 32 == 31 || d + 1 == shape.head_dim)) {
        const int64_t offset = key_scale_offset(shape, slot, kv_head, d);
        total = std::fmaf(dot, read_scale(shape, block(position), offset), total);
        dot = 0.0f;
      }
    }
    return (scaled ? total : dot) * shape.scale;
  }
  float value(int32_t position, int32_t d) const {
    const int32_t slot = position % shape.block_tokens;
    return read_element(shape, block(position), value_index(shape, slot, kv_head, d));
  }
  float value_scale(int32_t position) const {
    const int32_t slot = position % shape.block_tokens;
    return read_scale(shape, block(position), value_scale_offset(shape, slot, kv_head));
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
    const float scaled = weight * row.value_scale(p);
    for (int32_t d = 0; d < row.shape.head_dim; ++d) {
      float& sum = state->values[static_cast<size_t>(d)];
      sum = std::fmaf(scaled, row.value(p, d), sum);
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
  return read_element(shape, block, key_index(shape, slot, h, d)) *
         read_scale(shape, block, key_scale_offset(shape, slot, h, d));
}

float stored_value(const AttentionShape& shape, const std::byte* block, int32_t slot, int32_t h,
                   int32_t d) {
  return read_element(shape, block, value_index(shape, slot, h, d)) *
         read_scale(shape, block, value_scale_offset(shape, slot, h));
}

void store_kv(const AttentionShape& shape, std::byte* block, int32_t slot, const float* k,
              const float* v) {
  for (int32_t h = 0; h < shape.kv_heads; ++h) {
    const float* key = k + h * shape.head_dim;
    const float* value = v + h * shape.head_dim;
    const float v_factor = write_scale(shape, block, value_scale_offset(shape, slot, h), value,
                                       shape.head_dim);
    float k_factor = 0.0f;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      if (d % 32 == 0) {
        k_factor = write_scale(shape, block, key_scale_offset(shape, slot, h, d), key + d,
                               std::min(32, shape.head_dim - d));
      }
      write_element(shape, block, key_index(shape, slot, h, d), key[d], k_factor);
      write_element(shape, block, value_index(shape, slot, h, d), value[d], v_factor);
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
