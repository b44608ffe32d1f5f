// What is at stake: norms, activations, RoPE, KV stores and reductions mean what the model's papers
// say, and no instruction set, length or tail changes a bit of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/formats/formats.h"
#include "kernels/ref/vector_ref.h"
#include "kernels/test_util.h"

namespace lineshaft::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class VectorTest : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Isas, VectorTest, testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

const std::vector<int64_t> kLengths = {1, 2, 15, 16, 17, 31, 33, 64, 100, 576, 640, 1000, 1537};

TEST_P(VectorTest, RmsNormEqualsItsTwinAndTheDefinition) {
  for (const int64_t n : kLengths) {
    const RngKey key = RngKey(1).split(static_cast<uint64_t>(n));
    const auto size = static_cast<size_t>(n);
    const auto x = random_floats(key.split(0), size, 3.0f);
    const auto weight = random_floats(key.split(1), size, 2.0f);
    std::vector<float> out(size), twin(size);
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
    ref::rms_norm(x.data(), weight.data(), 1e-5f, n, twin.data());
    ASSERT_TRUE(same_bits(out, twin)) << n;
    double squares = 0.0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (size_t i = 0; i < size; ++i) {
      const double exact = x[i] * factor * weight[i];
      ASSERT_NEAR(out[i], exact, 1e-6 * std::fabs(exact) + 1e-12) << n << " " << i;
    }
    std::vector<float> in_place = x;
    kernels().rms_norm(in_place.data(), weight.data(), 1e-5f, n, in_place.data());
    ASSERT_TRUE(same_bits(in_place, out)) << n;
  }
}

TEST_P(VectorTest, AddAndScaleAreIeee) {
  for (const int64_t n : kLengths) {
    const auto size = static_cast<size_t>(n);
    const auto x = random_floats(RngKey(2), size, 3.0f);
    const auto y = random_floats(RngKey(3), size, 1e6f);
    std::vector<float> sum = x, product = x;
    kernels().add(sum.data(), y.data(), n);
    kernels().scale(product.data(), 1.7f, n);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(sum[i], x[i] + y[i]);
      ASSERT_EQ(product[i], x[i] * 1.7f);
    }
  }
}

TEST_P(VectorTest, ActivationsEqualTheirTwinsAndTheDefinitions) {
  for (const int64_t n : kLengths) {
    const auto size = static_cast<size_t>(n);
    for (const float range : {0.01f, 3.0f, 20.0f, 95.0f, 1e9f}) {
      const auto gate = random_floats(RngKey(4).split(size), size, range);
      const auto up = random_floats(RngKey(5), size, 2.0f);
      std::vector<float> out(size), twin(size);
      kernels().silu_mul(gate.data(), up.data(), n, out.data());
      ref::silu_mul(gate.data(), up.data(), n, twin.data());
      ASSERT_TRUE(same_bits(out, twin)) << n << " " << range;
      for (size_t i = 0; i < size; ++i) {
        const double g = gate[i], exact = g / (1.0 + std::exp(-g)) * up[i];
        ASSERT_NEAR(out[i], exact, 4e-7 * std::fabs(exact) + 1e-36);
      }
      kernels().gelu_tanh_mul(gate.data(), up.data(), n, out.data());
      ref::gelu_tanh_mul(gate.data(), up.data(), n, twin.data());
      ASSERT_TRUE(same_bits(out, twin)) << n << " " << range;
      for (size_t i = 0; i < size; ++i) {
        const double g = gate[i];
        const double u = std::sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g);
        const double exact = 0.5 * g * (1.0 + std::tanh(u)) * up[i];
        ASSERT_NEAR(out[i], exact, 1e-6 * std::fabs(exact) + 4e-7);
      }
    }
  }
}

TEST_P(VectorTest, ExponentialInsideActivationsIsExpF32) {
  // Below -17 the 1 of 1 + e^x is lost, so the quotient shows the bits of the exponential.
  std::vector<float> gate;
  for (int i = 0; i < 300'000; ++i) gate.push_back(-89.0f + static_cast<float>(i) * 6e-4f);
  for (const float x : {0.0f, -0.0f, 87.33654f, -87.33654f, 87.33655f, 88.72283f, -88.72283f,
                        -88.72284f, -kInf, 1e38f, -1e38f, 1e-45f}) {
    gate.push_back(x);
  }
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size()), twin(gate.size());
  kernels().silu_mul(gate.data(), up.data(), static_cast<int64_t>(gate.size()), out.data());
  ref::silu_mul(gate.data(), up.data(), static_cast<int64_t>(gate.size()), twin.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    if (std::isnan(twin[i])) {
      ASSERT_TRUE(std::isnan(out[i])) << gate[i];
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(twin[i])) << gate[i];
    }
  }
}

TEST_P(VectorTest, RopeTurnsEachPairByItsAngle) {
  for (const bool interleaved : {false, true}) {
    for (const int32_t rope_dims : {2, 16, 24, 32, 64, 80, 128}) {
      const int32_t head_dim = 128, heads = 3, half = rope_dims / 2;
      std::vector<double> inv_freq(static_cast<size_t>(half));
      rope_inv_freq(10000.0, rope_dims, inv_freq);
      std::vector<float> cosine(inv_freq.size()), sine(inv_freq.size());
      rope_angles(1234, inv_freq, 1.0, cosine.data(), sine.data());
      const auto x = random_floats(RngKey(6), static_cast<size_t>(heads) * head_dim, 2.0f);
      std::vector<float> out = x, twin = x;
      kernels().rope(out.data(), heads, head_dim, rope_dims, interleaved, cosine.data(),
                     sine.data());
      ref::rope(twin.data(), heads, head_dim, rope_dims, interleaved, cosine.data(), sine.data());
      ASSERT_TRUE(same_bits(out, twin)) << rope_dims << interleaved;
      for (int32_t h = 0; h < heads; ++h) {
        for (int32_t i = 0; i < half; ++i) {
          const auto a = static_cast<size_t>(h * head_dim + (interleaved ? 2 * i : i));
          const auto b = static_cast<size_t>(h * head_dim + (interleaved ? 2 * i + 1 : half + i));
          const double angle = 1234 * inv_freq[static_cast<size_t>(i)];
          ASSERT_NEAR(out[a], x[a] * std::cos(angle) - x[b] * std::sin(angle), 1e-6);
          ASSERT_NEAR(out[b], x[b] * std::cos(angle) + x[a] * std::sin(angle), 1e-6);
        }
        for (int32_t d = rope_dims; d < head_dim; ++d) {
          const auto at = static_cast<size_t>(h * head_dim + d);
          ASSERT_EQ(out[at], x[at]) << "beyond rope_dims nothing turns";
        }
      }
    }
  }
}

float rounded_to(KvType type, float x, float amax) {
  switch (type) {
    case KvType::kF32: return x;
    case KvType::kF16: return f16_to_f32(f32_to_f16(x));
    case KvType::kBF16: return bf16_to_f32(f32_to_bf16(x));
    case KvType::kQ8: return std::nearbyint(x * (127.0f / amax)) * (amax / 127.0f);
  }
  return 0.0f;
}

float largest_magnitude(const std::vector<float>& x, size_t begin, size_t n) {
  float largest = 0.0f;
  for (size_t i = begin; i < begin + n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

TEST_P(VectorTest, StoreKvWritesItsSlotRoundedAndNothingElse) {
  for (const KvType type : kKvTypes) {
    AttentionShape shape{.heads = 6, .kv_heads = 3, .head_dim = 48, .block_tokens = 32};
    shape.kv_type = type;
    shape.layer_offset = 192;
    const auto bytes = static_cast<size_t>(192 + kv_layer_bytes(shape) + 64);
    std::vector<std::byte> block(bytes, std::byte{0x5a}), twin = block;
    for (const int32_t slot : {0, 5, 15, 16, 31}) {
      const size_t n = 3 * 48;
      auto k = random_floats(RngKey(7).split(static_cast<uint64_t>(slot)), n, 1e-6f);
      auto v = random_floats(RngKey(8).split(static_cast<uint64_t>(slot)), n, 7e4f);
      k[0] = 65504.0f, k[1] = 65520.0f, k[2] = -65536.0f, k[3] = 5.9604645e-8f, k[4] = 2.98e-8f;
      k[5] = 1.0004883f, k[6] = 1.0014648f, k[7] = -0.0f, k[8] = 1.00390625f, k[9] = 1.01171875f;
      kernels().store_kv(shape, block.data(), slot, k.data(), v.data());
      ref::store_kv(shape, twin.data(), slot, k.data(), v.data());
      ASSERT_EQ(block, twin) << slot;
      for (int32_t i = 0; i < 3 * 48; ++i) {
        const auto at = static_cast<size_t>(i);
        const size_t k_begin = at / 48 * 48 + at % 48 / 32 * 32;  // groups of 32 and 16
        const float k_amax = largest_magnitude(k, k_begin, at % 48 < 32 ? 32 : 16);
        const float v_amax = largest_magnitude(v, at / 48 * 48, 48);
        ASSERT_EQ(ref::stored_key(shape, block.data(), slot, i / 48, i % 48),
                  rounded_to(type, k[at], k_amax));
        ASSERT_EQ(ref::stored_value(shape, block.data(), slot, i / 48, i % 48),
                  rounded_to(type, v[at], v_amax));
      }
    }
  }
}

TEST_P(VectorTest, StoreKvOfNoNumbersShowsAndEqualsItsTwin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KvType type : kKvTypes) {
    AttentionShape shape{.heads = 1, .kv_heads = 1, .head_dim = 16, .block_tokens = 16};
    shape.kv_type = type;
    std::vector<std::byte> block(static_cast<size_t>(kv_layer_bytes(shape)));
    std::vector<std::byte> twin = block;
    std::vector<float> row(16, 1.0f);
    int32_t slot = 0;
    for (const float x : {kInf, -kInf, nan, -nan, 0.0f, 1e-31f, 3e38f}) {
      row[3] = x;
      if (x == 0.0f || x == 1e-31f) row.assign(16, x);
      kernels().store_kv(shape, block.data(), slot, row.data(), row.data());
      ref::store_kv(shape, twin.data(), slot, row.data(), row.data());
      ASSERT_EQ(block, twin) << name_of(type) << " " << x;
      if (std::isinf(x)) {
        ASSERT_FALSE(std::isfinite(ref::stored_key(shape, block.data(), slot, 0, 3)));
      }
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(ref::stored_key(shape, block.data(), slot, 0, 3)));
      }
      ++slot;
    }
  }
}

// Every f16 through the hardware's conversion, by an attention over one position: the weight is 1.
TEST_P(VectorTest, F16IsReadExactly) {
  AttentionShape shape{.heads = 1, .kv_heads = 1, .head_dim = 16, .block_tokens = 16, .scale = 1};
  alignas(64) static float scratch[1 << 15];
  ASSERT_LE(attention_scratch_floats(shape), 1 << 15);
  std::vector<uint16_t> block(2 * 16 * 16, 0);
  const std::vector<float> q(16, 0.0f);
  std::vector<float> out(16);
  const auto* bytes = reinterpret_cast<const std::byte*>(block.data());
  const AttentionSequence sequence{
      .q = q.data(), .out = out.data(), .first = 0, .rows = 1, .blocks = &bytes};
  for (uint32_t bits = 0; bits < 0x10000; bits += 16) {
    for (uint32_t i = 0; i < 16; ++i) block[256 + i] = static_cast<uint16_t>(bits + i);
    kernels().attention(shape, sequence, {0, 1}, scratch);
    for (uint32_t i = 0; i < 16; ++i) {
      const float exact = f16_to_f32(static_cast<uint16_t>(bits + i));
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(out[i]));
      } else {
        ASSERT_EQ(out[i], exact) << bits + i;
      }
    }
  }
}

TEST_P(VectorTest, LogSumExpEqualsItsTwinAndTheDefinition) {
  for (const int64_t n : kLengths) {
    for (const float range : {1.0f, 30.0f, 1000.0f}) {
      const auto size = static_cast<size_t>(n);
      const auto x = random_floats(RngKey(9).split(size), size, range);
      const float out = kernels().log_sum_exp(x.data(), n);
      const float twin = ref::log_sum_exp(x.data(), n);
      ASSERT_EQ(std::bit_cast<uint32_t>(out), std::bit_cast<uint32_t>(twin));
      const double highest = *std::max_element(x.begin(), x.end());
      double total = 0.0;
      for (const float v : x) total += std::exp(v - highest);
      const double exact = highest + std::log(total);
      ASSERT_NEAR(out, exact, 1e-6 + 1e-7 * std::fabs(exact)) << n << " " << range;
    }
  }
  const std::vector<float> nothing(20, -kInf);
  EXPECT_EQ(kernels().log_sum_exp(nothing.data(), 20), -kInf);
}

TEST_P(VectorTest, ArgmaxIsTheLowestIndexOfTheLargestAndNeverNaN) {
  for (const int64_t n : kLengths) {
    const auto size = static_cast<size_t>(n);
    for (uint64_t trial = 0; trial < 20; ++trial) {
      const RngKey key = RngKey(10).split(trial * 10'000 + size);
      std::vector<float> x(size);
      for (size_t i = 0; i < size; ++i) {
        const uint64_t kind = key.below(i, 12);  // few values: many ties
        x[i] = kind == 0 ? kNan : kind == 1 ? -kInf : static_cast<float>(kind % 4) - 2.0f;
      }
      ASSERT_EQ(kernels().argmax(x.data(), n), ref::argmax(x.data(), n)) << n << " " << trial;
    }
  }
  const std::vector<float> zeros = {kNan, -1.0f, -0.0f, 0.0f};
  EXPECT_EQ(kernels().argmax(zeros.data(), 4), 2);
  const std::vector<float> nothing = {kNan, kNan, -kInf, kNan};
  EXPECT_EQ(kernels().argmax(nothing.data(), 4), 2);
  EXPECT_EQ(kernels().argmax(nothing.data(), 2), 0);
}

}  // namespace
}  // namespace lineshaft::kernels
