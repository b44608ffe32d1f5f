// At stake: the numerics law for matrix products. Every instruction set, every cut of rows and
// outputs and every neighbourhood of a row must give the bits of the plain twin.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/backend.h"
#include "kernels/formats/blocks.h"
#include "kernels/formats/formats.h"
#include "kernels/ref/matmul.h"
#include "kernels/test_util.h"

namespace lineshaft::kernels {
namespace {

// Random draws in order, all from one seed.
class Draws {
 public:
  explicit Draws(uint64_t seed) : key_(seed) {}
  uint64_t bits() { return key_.bits(counter_++); }
  int64_t below(int64_t n) {
    return static_cast<int64_t>(key_.below(counter_++, static_cast<uint64_t>(n)));
  }
  float uniform() { return static_cast<float>(bits() >> 40) * 0x1p-23f - 1.0f; }  // [-1, 1)

 private:
  RngKey key_;
  uint64_t counter_ = 0;
};

std::vector<WeightType> types(bool quantised_only) {
  std::vector<WeightType> out;
  for (int i = 0; i < kWeightTypeCount; ++i) {
    const auto type = static_cast<WeightType>(i);
    if (info(type).quantised || !quantised_only) out.push_back(type);
  }
  return out;
}

std::string name_of_param(const testing::TestParamInfo<WeightType>& param) {
  return std::string(info(param.param).name);
}

void put_f16(std::byte* p, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(p, &bits, 2);
}

// A matrix as in a file: random bytes, with sane f16 scales and float weights.
std::vector<std::byte> random_rows(WeightType type, int64_t outputs, int64_t k, Draws& draws) {
  const WeightTypeInfo& format = info(type);
  const int64_t blocks = outputs * k / format.block_elements;
  std::vector<std::byte> rows(static_cast<size_t>(blocks * format.block_bytes));
  for (std::byte& b : rows) b = static_cast<std::byte>(draws.bits());
  for (int64_t b = 0; b < blocks; ++b) {
    std::byte* block = rows.data() + b * format.block_bytes;
    const float value = draws.uniform();
    if (type == WeightType::kF32) {
      std::memcpy(block, &value, 4);
    } else if (type == WeightType::kF16) {
      put_f16(block, value);
    } else if (type == WeightType::kBF16) {
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      const auto high = static_cast<uint16_t>(bits >> 16);
      std::memcpy(block, &high, 2);
    } else {
      put_f16(block + block_d_offset(type), value * 0.05f);
      if (block_has_min(type)) put_f16(block + block_min_offset(type), draws.uniform() * 0.1f);
    }
  }
  return rows;
}

struct Activations {
  Activations(int64_t m, int64_t row_k) : f32(static_cast<size_t>(m * row_k)), k(row_k) {}

  void quantise() {
    if (k % 32 != 0) return;
    const auto m = static_cast<int64_t>(f32.size()) / k;
    q1.resize(f32.size() / 32);
    q2.resize(f32.size() / 32);
    for (int64_t r = 0; r < m; ++r) {
      ref::quantise_row(f32.data() + r * k, k, q1.data() + r * k / 32);
      ref::quantise_row(f32.data() + r * k, k, q2.data() + r * k / 32);
    }
  }
  // digits 0: f32 only.
  ActivationRows rows(int digits) const {
    return {f32.data(), k, digits == 1 ? q1.data() : nullptr, digits == 2 ? q2.data() : nullptr,
            k};
  }

  std::vector<float> f32;
  std::vector<QuantisedBlock<1>> q1;
  std::vector<QuantisedBlock<2>> q2;
  int64_t k;
};

Activations random_activations(int64_t m, int64_t k, Draws& draws) {
  Activations x(m, k);
  for (float& v : x.f32) v = draws.uniform() * (draws.below(50) == 0 ? 30.0f : 1.0f);
  x.quantise();
  return x;
}

std::vector<float> product(const Kernels& kernels, const PackedMatrix& w, const ActivationRows& x,
                           int64_t m) {
  std::vector<float> y(static_cast<size_t>(m * w.outputs()), -7.0f);
  kernels.matmul(w, x, {0, m}, {0, w.tile_count()}, y.data(), w.outputs());
  return y;
}

// Number of floats that differ in their bits.
int64_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], &b[i], 4) != 0;
  return count;
}

std::vector<float> twin(WeightType type, const std::vector<std::byte>& rows, int64_t outputs,
                        const Activations& x, int64_t m, int digits) {
  std::vector<float> y(static_cast<size_t>(m * outputs));
  for (int64_t r = 0; r < m; ++r) {
    float* to = y.data() + r * outputs;
    if (digits == 1) {
      ref::matmul_int8(type, rows, outputs, x.k, x.q1.data() + r * x.k / 32, to);
    } else if (digits == 2) {
      ref::matmul_int8(type, rows, outputs, x.k, x.q2.data() + r * x.k / 32, to);
    } else {
      ref::matmul_f32(type, rows, outputs, x.k, x.f32.data() + r * x.k, to);
    }
  }
  return y;
}

class MatmulTest : public testing::TestWithParam<WeightType> {};
class QuantisedMatmulTest : public testing::TestWithParam<WeightType> {};

TEST_P(MatmulTest, EveryIsaHasTheBitsOfThePlainTwinOnRandomShapes) {
  const WeightType type = GetParam();
  Draws draws(1000 + static_cast<uint64_t>(type));
  for (int trial = 0; trial < 12; ++trial) {
    const int64_t unit = info(type).block_elements;
    const int64_t k = unit * (1 + draws.below(unit == 1 ? 600 : unit == 32 ? 20 : 3));
    const int64_t outputs = 1 + draws.below(150);
    const int64_t m = 1 + draws.below(trial % 3 == 0 ? 70 : 12);
    const std::vector<std::byte> rows = random_rows(type, outputs, k, draws);
    const Activations x = random_activations(m, k, draws);
    PackedMatrix w(type, outputs, k);
    w.pack_tiles(rows, {0, w.tile_count()});
    for (const int digits : {0, 1, 2}) {
      const int used = info(type).quantised ? digits : 0;
      const std::vector<float> want = twin(type, rows, outputs, x, m, used);
      for (const Isa isa : machine_isas()) {
        const std::vector<float> y = product(kernels_for(isa), w, x.rows(digits), m);
        EXPECT_EQ(differing(y, want), 0) << name_of(isa) << " " << m << " x " << outputs << " x "
                                         << k << ", digits " << digits;
      }
    }
  }
}

TEST_P(MatmulTest, AnyCutOfRowsAndTilesGivesTheSameBits) {
  const WeightType type = GetParam();
  Draws draws(2000 + static_cast<uint64_t>(type));
  const int64_t k = 512, outputs = 150, m = 53;
  const std::vector<std::byte> rows = random_rows(type, outputs, k, draws);
  const Activations x = random_activations(m, k, draws);
  PackedMatrix w(type, outputs, k);
  w.pack_tiles(rows, {0, w.tile_count()});
  for (const Isa isa : machine_isas()) {
    for (const int digits : {0, 1, 2}) {
      const Kernels& kernels = kernels_for(isa);
      const std::vector<float> whole = product(kernels, w, x.rows(digits), m);
      std::vector<float> y(whole.size(), -7.0f);
      for (int64_t r = 0; r < m;) {
        const int64_t r1 = std::min(m, r + 1 + draws.below(20));
        for (int64_t t = 0; t < w.tile_count();) {
          const int64_t t1 = std::min(w.tile_count(), t + 1 + draws.below(5));
          kernels.matmul(w, x.rows(digits), {r, r1}, {t, t1}, y.data(), outputs);
          t = t1;
        }
        r = r1;
      }
      EXPECT_EQ(differing(y, whole), 0) << name_of(isa) << ", digits " << digits;
    }
  }
}

TEST_P(MatmulTest, F32FormIsCloseToDouble) {
  const WeightType type = GetParam();
  Draws draws(3000 + static_cast<uint64_t>(type));
  const int64_t k = 1536, outputs = 20;
  const std::vector<std::byte> rows = random_rows(type, outputs, k, draws);
  const Activations x = random_activations(1, k, draws);
  PackedMatrix w(type, outputs, k);
  w.pack_tiles(rows, {0, w.tile_count()});
  const std::vector<float> y = product(kernels_for(best_isa()), w, x.rows(0), 1);
  const auto row_bytes = static_cast<int64_t>(rows.size()) / outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    const ref::ExactSum exact = ref::dot_f64(type, rows.data() + o * row_bytes, k, x.f32.data());
    EXPECT_NEAR(y[static_cast<size_t>(o)], exact.value, 1e-5 * exact.magnitude);
  }
}

float value_at(const QuantisedBlock<1>& b, size_t i) { return b.scale * b.digits[0][i]; }
float value_at(const QuantisedBlock<2>& b, size_t i) {
  return b.scale * static_cast<float>(128 * b.digits[0][i] + b.digits[1][i]);
}

template <int kDigits>
std::vector<float> values_of(const std::vector<QuantisedBlock<kDigits>>& blocks) {
  std::vector<float> values(32 * blocks.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(blocks[i / 32], i % 32);
  return values;
}

TEST_P(QuantisedMatmulTest, Int8FormErrsByTheActivationsRoundingOnly) {
  const WeightType type = GetParam();
  Draws draws(4000 + static_cast<uint64_t>(type));
  const int64_t k = 1536, outputs = 20;
  const std::vector<std::byte> rows = random_rows(type, outputs, k, draws);
  const Activations x = random_activations(1, k, draws);
  PackedMatrix w(type, outputs, k);
  w.pack_tiles(rows, {0, w.tile_count()});
  const auto row_bytes = static_cast<int64_t>(rows.size()) / outputs;
  for (const int digits : {1, 2}) {
    const std::vector<float> rounded = digits == 1 ? values_of(x.q1) : values_of(x.q2);
    const std::vector<float> y = product(kernels_for(best_isa()), w, x.rows(digits), 1);
    for (int64_t o = 0; o < outputs; ++o) {
      const auto exact = ref::dot_f64(type, rows.data() + o * row_bytes, k, rounded.data());
      EXPECT_NEAR(y[static_cast<size_t>(o)], exact.value, 1e-5 * exact.magnitude) << digits;
    }
  }
}

TEST_P(QuantisedMatmulTest, ExtremeQuantsAndActivationsStayExact) {
  const WeightType type = GetParam();
  // All quant bits set or clear against activations of one sign: the largest integer sums.
  for (const int fill : {0x00, 0xff, 0x7f, 0x80}) {
    const int64_t k = 512, outputs = 16;
    Draws draws(5);
    std::vector<std::byte> rows = random_rows(type, outputs, k, draws);
    const WeightTypeInfo& format = info(type);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int at = static_cast<int>(i % static_cast<size_t>(format.block_bytes));
      const int d = block_d_offset(type), min = block_min_offset(type);
      const bool scale_byte = at - d == 0 || at - d == 1 ||
                              (block_has_min(type) && (at - min == 0 || at - min == 1));
      if (!scale_byte) rows[i] = static_cast<std::byte>(fill);
    }
    Activations x(3, k);
    for (int64_t i = 0; i < 3 * k; ++i) {
      const float alternating = i % 2 == 0 ? 1.0f : -1.0f;
      x.f32[static_cast<size_t>(i)] = i < k ? 1.0f : i < 2 * k ? -1.0f : alternating;
    }
    x.quantise();
    PackedMatrix w(type, outputs, k);
    w.pack_tiles(rows, {0, 1});
    for (const int digits : {1, 2}) {
      const std::vector<float> want = twin(type, rows, outputs, x, 3, digits);
      for (const Isa isa : machine_isas()) {
        EXPECT_EQ(differing(product(kernels_for(isa), w, x.rows(digits), 3), want), 0)
            << name_of(isa) << " fill " << fill << ", digits " << digits;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, testing::ValuesIn(types(false)), name_of_param);
INSTANTIATE_TEST_SUITE_P(Types, QuantisedMatmulTest, testing::ValuesIn(types(true)),
                         name_of_param);

template <int kDigits>
void quantise(const Kernels& kernels, const std::vector<float>& x,
              std::vector<QuantisedBlock<kDigits>>& out) {
  out.resize(x.size() / 32);
  const auto k = static_cast<int64_t>(x.size());
  if constexpr (kDigits == 1) {
    kernels.quantise_row_1(x.data(), k, out.data());
  } else {
    kernels.quantise_row_2(x.data(), k, out.data());
  }
}

template <int kDigits>
void expect_bits_of_the_twin(const std::vector<float>& x) {
  std::vector<QuantisedBlock<kDigits>> want(x.size() / 32), got;
  ref::quantise_row(x.data(), static_cast<int64_t>(x.size()), want.data());
  for (const Isa isa : machine_isas()) {
    quantise(kernels_for(isa), x, got);
    EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof want[0]), 0)
        << name_of(isa) << ", digits " << kDigits;
  }
}

TEST(QuantiseRowTest, EveryIsaHasTheBitsOfThePlainTwin) {
  Draws draws(7);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(trial);
    const int64_t k = 32 * (1 + draws.below(20));
    std::vector<float> x(static_cast<size_t>(k));
    const float size = std::ldexp(1.0f, static_cast<int>(draws.below(120)) - 60);
    for (float& v : x) v = trial % 10 == 0 ? 0.0f : draws.uniform() * size;
    // Exact halves: the rounding must be to even.
    if (trial % 7 == 0) {
      for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 16) + 0.5f;
      const float amax = trial % 2 == 0 ? 16319.0f : 127.0f;
      for (int64_t b = 0; b < k / 32; ++b) x[static_cast<size_t>(32 * b + 31)] = amax;
    }
    expect_bits_of_the_twin<1>(x);
    expect_bits_of_the_twin<2>(x);
  }
}

template <int kDigits>
void expect_half_a_step(double qmax) {
  Draws draws(8);
  std::vector<float> x(64);
  for (float& v : x) v = draws.uniform();
  std::vector<QuantisedBlock<kDigits>> q;
  quantise(kernels_for(best_isa()), x, q);
  const std::vector<float> values = values_of(q);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(values[i], x[i], 0.501 * q[i / 32].scale) << i;
    EXPECT_LE(q[i / 32].scale, 1.0001 / qmax);
  }
}

TEST(QuantiseRowTest, KeepsEightOrFifteenBits) {
  expect_half_a_step<1>(127);
  expect_half_a_step<2>(16319);
}

TEST(QuantiseRowTest, TinyInfiniteAndNanActivationsGiveDefinedBlocks) {
  for (const float v : {1e-38f, -1e-31f, INFINITY, -INFINITY, NAN}) {
    std::vector<float> x(64, 0.25f);
    x[5] = v;
    for (const Isa isa : machine_isas()) {
      SCOPED_TRACE(name_of(isa));
      std::vector<QuantisedBlock<1>> q1;
      std::vector<QuantisedBlock<2>> q2;
      quantise(kernels_for(isa), x, q1);
      quantise(kernels_for(isa), x, q2);
      for (const int8_t digit : q1[0].digits[0]) EXPECT_GE(digit, -127);
      for (const int8_t digit : q2[0].digits[0]) EXPECT_GE(digit, -127);
      for (const int8_t digit : q2[0].digits[1]) EXPECT_TRUE(digit >= -64 && digit <= 63);
      EXPECT_EQ(q1[1].digits[0][0], 127);
      EXPECT_EQ(q2[1].digits[0][0], 127);
      EXPECT_EQ(q2[1].digits[1][0], 63);
      quantise(kernels_for(isa), std::vector<float>(32, 1e-31f), q1);
      quantise(kernels_for(isa), std::vector<float>(32, 1e-31f), q2);
      EXPECT_EQ(q1[0].scale, 0.0f);
      EXPECT_EQ(q2[0].scale, 0.0f);
      EXPECT_EQ(q1[0].digits[0][0], 0);
      EXPECT_EQ(q2[0].digits[0][0], 0);
      EXPECT_EQ(q2[0].digits[1][0], 0);
    }
  }
}

}  // namespace
}  // namespace lineshaft::kernels
