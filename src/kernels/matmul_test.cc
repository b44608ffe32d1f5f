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
  std::vector<float> f32;
  std::vector<QuantisedBlock> q8;
  int64_t k;

  ActivationRows rows(bool quantised) const {
    return {f32.data(), k, quantised ? q8.data() : nullptr, k};
  }
};

Activations random_activations(int64_t m, int64_t k, Draws& draws) {
  Activations x{std::vector<float>(static_cast<size_t>(m * k)),
                std::vector<QuantisedBlock>(static_cast<size_t>(m * k / 32)), k};
  for (float& v : x.f32) v = draws.uniform() * (draws.below(50) == 0 ? 30.0f : 1.0f);
  for (int64_t r = 0; r < m && k % 32 == 0; ++r) {
    ref::quantise_row(x.f32.data() + r * k, k, x.q8.data() + r * k / 32);
  }
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
                        const Activations& x, int64_t m, bool quantised) {
  std::vector<float> y(static_cast<size_t>(m * outputs));
  for (int64_t r = 0; r < m; ++r) {
    float* to = y.data() + r * outputs;
    if (quantised) {
      ref::matmul_int8(type, rows, outputs, x.k, x.q8.data() + r * x.k / 32, to);
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
    for (const bool quantised : {false, true}) {
      const bool int8 = quantised && info(type).quantised;
      const std::vector<float> want = twin(type, rows, outputs, x, m, int8);
      for (const Isa isa : machine_isas()) {
        const std::vector<float> y = product(kernels_for(isa), w, x.rows(quantised), m);
        EXPECT_EQ(differing(y, want), 0) << name_of(isa) << " " << m << " x " << outputs << " x "
                                         << k << (quantised ? " int8" : " f32");
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
    for (const bool quantised : {false, true}) {
      const Kernels& kernels = kernels_for(isa);
      const std::vector<float> whole = product(kernels, w, x.rows(quantised), m);
      std::vector<float> y(whole.size(), -7.0f);
      for (int64_t r = 0; r < m;) {
        const int64_t r1 = std::min(m, r + 1 + draws.below(20));
        for (int64_t t = 0; t < w.tile_count();) {
          const int64_t t1 = std::min(w.tile_count(), t + 1 + draws.below(5));
          kernels.matmul(w, x.rows(quantised), {r, r1}, {t, t1}, y.data(), outputs);
          t = t1;
        }
        r = r1;
      }
      EXPECT_EQ(differing(y, whole), 0) << name_of(isa) << (quantised ? " int8" : " f32");
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
  const std::vector<float> y = product(kernels_for(best_isa()), w, x.rows(false), 1);
  const auto row_bytes = static_cast<int64_t>(rows.size()) / outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    const ref::ExactSum exact = ref::dot_f64(type, rows.data() + o * row_bytes, k, x.f32.data());
    EXPECT_NEAR(y[static_cast<size_t>(o)], exact.value, 1e-5 * exact.magnitude);
  }
}

TEST_P(QuantisedMatmulTest, Int8FormErrsByTheActivationsRoundingOnly) {
  const WeightType type = GetParam();
  Draws draws(4000 + static_cast<uint64_t>(type));
  const int64_t k = 1536, outputs = 20;
  const std::vector<std::byte> rows = random_rows(type, outputs, k, draws);
  const Activations x = random_activations(1, k, draws);
  std::vector<float> rounded(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) {
    const QuantisedBlock& b = x.q8[static_cast<size_t>(i / 32)];
    rounded[static_cast<size_t>(i)] =
        b.scale * static_cast<float>(128 * b.high[i % 32] + b.low[i % 32]);
  }
  PackedMatrix w(type, outputs, k);
  w.pack_tiles(rows, {0, w.tile_count()});
  const std::vector<float> y = product(kernels_for(best_isa()), w, x.rows(true), 1);
  const auto row_bytes = static_cast<int64_t>(rows.size()) / outputs;
  for (int64_t o = 0; o < outputs; ++o) {
    const ref::ExactSum exact = ref::dot_f64(type, rows.data() + o * row_bytes, k, rounded.data());
    EXPECT_NEAR(y[static_cast<size_t>(o)], exact.value, 1e-5 * exact.magnitude);
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
    Activations x{std::vector<float>(3 * k), std::vector<QuantisedBlock>(3 * k / 32), k};
    for (int64_t i = 0; i < 3 * k; ++i) {
      const float alternating = i % 2 == 0 ? 1.0f : -1.0f;
      x.f32[static_cast<size_t>(i)] = i < k ? 1.0f : i < 2 * k ? -1.0f : alternating;
    }
    for (int64_t r = 0; r < 3; ++r) {
      ref::quantise_row(x.f32.data() + r * k, k, x.q8.data() + r * k / 32);
    }
    PackedMatrix w(type, outputs, k);
    w.pack_tiles(rows, {0, 1});
    const std::vector<float> want = twin(type, rows, outputs, x, 3, true);
    for (const Isa isa : machine_isas()) {
      EXPECT_EQ(differing(product(kernels_for(isa), w, x.rows(true), 3), want), 0)
          << name_of(isa) << " fill " << fill;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest, testing::ValuesIn(types(false)), name_of_param);
INSTANTIATE_TEST_SUITE_P(Types, QuantisedMatmulTest, testing::ValuesIn(types(true)),
                         name_of_param);

TEST(QuantiseRowTest, EveryIsaHasTheBitsOfThePlainTwin) {
  Draws draws(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t k = 32 * (1 + draws.below(20));
    std::vector<float> x(static_cast<size_t>(k));
    const float size = std::ldexp(1.0f, static_cast<int>(draws.below(120)) - 60);
    for (float& v : x) v = trial % 10 == 0 ? 0.0f : draws.uniform() * size;
    // Exact halves: the rounding must be to even.
    if (trial % 7 == 0) {
      for (int64_t i = 0; i < k; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 16) + 0.5f;
      for (int64_t b = 0; b < k / 32; ++b) x[static_cast<size_t>(32 * b + 31)] = 16319.0f;
    }
    std::vector<QuantisedBlock> want(static_cast<size_t>(k / 32)), got(want.size());
    ref::quantise_row(x.data(), k, want.data());
    for (const Isa isa : machine_isas()) {
      kernels_for(isa).quantise_row(x.data(), k, got.data());
      EXPECT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof want[0]), 0)
          << name_of(isa) << " trial " << trial;
    }
  }
}

TEST(QuantiseRowTest, KeepsFifteenBits) {
  Draws draws(8);
  std::vector<float> x(64);
  for (float& v : x) v = draws.uniform();
  std::vector<QuantisedBlock> q(2);
  kernels_for(best_isa()).quantise_row(x.data(), 64, q.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const QuantisedBlock& b = q[i / 32];
    const double value = static_cast<double>(b.scale) * (128 * b.high[i % 32] + b.low[i % 32]);
    EXPECT_NEAR(value, x[i], 0.501 * b.scale) << i;
    EXPECT_LE(b.scale, 1.0f / 16319.0f);
  }
}

TEST(QuantiseRowTest, TinyInfiniteAndNanActivationsGiveDefinedBlocks) {
  for (const float v : {1e-38f, -1e-31f, INFINITY, -INFINITY, NAN}) {
    std::vector<float> x(64, 0.25f);
    x[5] = v;
    for (const Isa isa : machine_isas()) {
      std::vector<QuantisedBlock> q(2);
      kernels_for(isa).quantise_row(x.data(), 64, q.data());
      for (const int8_t digit : q[0].high) EXPECT_GE(digit, -127) << name_of(isa);
      for (const int8_t digit : q[0].low) EXPECT_TRUE(digit >= -64 && digit <= 63) << name_of(isa);
      EXPECT_EQ(q[1].high[0], 127) << name_of(isa);
      EXPECT_EQ(q[1].low[0], 63) << name_of(isa);
      std::vector<float> tiny(32, 1e-31f);
      kernels_for(isa).quantise_row(tiny.data(), 32, q.data());
      EXPECT_EQ(q[0].scale, 0.0f) << name_of(isa);
      EXPECT_EQ(q[0].high[0], 0) << name_of(isa);
      EXPECT_EQ(q[0].low[0], 0) << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace lineshaft::kernels
