#include "kernels/ref/matmul.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/formats/blocks.h"
#include "kernels/formats/formats.h"

namespace lineshaft::kernels::ref {
namespace {

int32_t value(const QuantisedBlock<1>& x, int i) { return x.digits[0][i]; }
int32_t value(const QuantisedBlock<2>& x, int i) { return 128 * x.digits[0][i] + x.digits[1][i]; }

// The sum over [begin, end) of (quant - bias) * q.
template <int kDigits>
int32_t integer_dot(WeightType type, const uint8_t* quants, const QuantisedBlock<kDigits>& x,
                    int begin, int end) {
  int32_t sum = 0;
  for (int i = begin; i < end; ++i) {
    sum += (quants[i] - block_bias(type)) * value(x, i);
  }
  return sum;
}

// acc plus the contribution of 32 weights.
template <int kDigits>
float add_part(WeightType type, const std::byte* block, int part,
               const QuantisedBlock<kDigits>& x, float acc) {
  uint8_t quants[32];
  block_quants(type, block, part, quants);
  float scale = f16_to_f32(load_u16(block + block_d_offset(type)));
  float min = block_has_min(type) ? f16_to_f32(load_u16(block + block_min_offset(type))) : 0.0f;
  int32_t dot = integer_dot(type, quants, x, 0, 32);
  if (type == WeightType::kQ6_K) {
    const SubScales sub = block_sub_scales(type, block, part);
    dot = sub.first * integer_dot(type, quants, x, 0, 16) +
          sub.second * integer_dot(type, quants, x, 16, 32);
  } else if (block_is_k(type)) {
    const SubScales sub = block_sub_scales(type, block, part);
    scale = scale * static_cast<float>(sub.first);
    min = -(min * static_cast<float>(sub.min));
  }
  acc = std::fma(static_cast<float>(dot), scale * x.scale, acc);
  return block_has_min(type) ? std::fma(min, x.sum, acc) : acc;
}

}  // namespace

template <int kDigits>
void quantise_row(const float* x, int64_t k, QuantisedBlock<kDigits>* out) {
  constexpr float kMax = kDigits == 1 ? 127.0f : 16319.0f;
  for (int64_t b = 0; b < k / 32; ++b) {
    float amax = 0.0f;
    for (int i = 0; i < 32; ++i) amax = std::max(amax, std::fabs(x[b * 32 + i]));
    const bool empty = amax < 1e-30f;
    int32_t sums[2] = {0, 0};
    for (int i = 0; i < 32; ++i) {
      const float scaled = empty ? 0.0f : x[b * 32 + i] * (kMax / amax);
      const auto q = static_cast<int32_t>(std::nearbyint(scaled));
      const int32_t high = kDigits == 1 ? q : static_cast<int32_t>(std::floor((q + 64) / 128.0));
      out[b].digits[0][i] = static_cast<int8_t>(high);
      if (kDigits == 2) out[b].digits[kDigits - 1][i] = static_cast<int8_t>(q - 128 * high);
      sums[i / 16] += q;
    }
    out[b].scale = empty ? 0.0f : amax / kMax;
    out[b].sum = out[b].scale * static_cast<float>(sums[0] + sums[1]);
    out[b].neg_sum = -(sums[0] + sums[1]);
    out[b].neg_sum_low = -sums[0];
  }
}

template <int kDigits>
void matmul_int8(WeightType type, std::span<const std::byte> weights, int64_t outputs, int64_t k,
                 const QuantisedBlock<kDigits>* x, float* y) {
  const WeightTypeInfo& format = info(type);
  const int parts = format.block_elements / 32;
  const std::byte* block = weights.data();
  for (int64_t o = 0; o < outputs; ++o) {
    float acc = 0.0f;
    for (int64_t b = 0; b < k / 32; ++b) {
      acc = add_part(type, block, static_cast<int>(b % parts), x[b], acc);
      if (b % parts == parts - 1) block += format.block_bytes;
    }
    y[o] = acc;
  }
}

template void quantise_row(const float*, int64_t, QuantisedBlock<1>*);
template void quantise_row(const float*, int64_t, QuantisedBlock<2>*);
template void matmul_int8(WeightType, std::span<const std::byte>, int64_t, int64_t,
                          const QuantisedBlock<1>*, float*);
template void matmul_int8(WeightType, std::span<const std::byte>, int64_t, int64_t,
                          const QuantisedBlock<2>*, float*);

void matmul_f32(WeightType type, std::span<const std::byte> weights, int64_t outputs, int64_t k,
                const float* x, float* y) {
  const WeightTypeInfo& format = info(type);
  const int64_t row_bytes = k / format.block_elements * format.block_bytes;
  std::vector<float> w(static_cast<size_t>(k));
  for (int64_t o = 0; o < outputs; ++o) {
    dequantise_row(type, weights.data() + o * row_bytes, k, w.data());
    float acc = 0.0f;
    for (int64_t i = 0; i < k; ++i) acc = std::fma(w[static_cast<size_t>(i)], x[i], acc);
    y[o] = acc;
  }
}

ExactSum dot_f64(WeightType type, const std::byte* row, int64_t k, const float* x) {
  std::vector<float> w(static_cast<size_t>(k));
  dequantise_row(type, row, k, w.data());
  ExactSum sum{0.0, 0.0};
  for (int64_t i = 0; i < k; ++i) {
    const double term = static_cast<double>(w[static_cast<size_t>(i)]) * x[i];
    sum.value += term;
    sum.magnitude += std::fabs(term);
  }
  return sum;
}

}  // namespace lineshaft::kernels::ref
