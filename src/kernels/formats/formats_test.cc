// At stake: that our reading of every block format is the world's. Golden values come from the gguf
// Python package (tests/golden/formats).
#include "kernels/formats/formats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"

namespace lineshaft::kernels {
namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> out(hex.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return out;
}

std::optional<WeightType> type_named(const std::string& name) {
  for (int i = 0; i < kWeightTypeCount; ++i) {
    if (info(static_cast<WeightType>(i)).name == name) return static_cast<WeightType>(i);
  }
  return std::nullopt;
}

TEST(FormatsTest, DequantisedValuesAreThoseOfTheGgufPackage) {
  std::ifstream file("tests/golden/formats/formats.txt");
  ASSERT_TRUE(file) << "run from the repository root";
  std::string name, blocks_hex, values_hex;
  int formats = 0;
  while (file >> name >> blocks_hex >> values_hex) {
    const std::optional<WeightType> type = type_named(name);
    ASSERT_TRUE(type.has_value()) << name;
    const std::vector<std::byte> blocks = from_hex(blocks_hex);
    const std::vector<std::byte> want = from_hex(values_hex);
    std::vector<float> got(want.size() / 4);
    const auto k = static_cast<int64_t>(got.size());
    ASSERT_EQ(static_cast<int64_t>(blocks.size()),
              k / info(*type).block_elements * info(*type).block_bytes)
        << name;
    dequantise_row(*type, blocks.data(), k, got.data());
    for (size_t i = 0; i < got.size(); ++i) {
      float expected;
      std::memcpy(&expected, want.data() + 4 * i, 4);
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected))
          << name << " value " << i << ": " << got[i] << " " << expected;
    }
    ++formats;
  }
  EXPECT_EQ(formats, 10);
}

TEST(FormatsTest, F32RowsAreCopied) {
  const float row[3] = {1.5f, -0.0f, 3e38f};
  float out[3];
  dequantise_row(WeightType::kF32, reinterpret_cast<const std::byte*>(row), 3, out);
  EXPECT_EQ(std::memcmp(row, out, sizeof row), 0);
}

TEST(FormatsTest, EveryHalfComesBackFromF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
    } else {
      ASSERT_EQ(f32_to_f16(value), half);
    }
  }
}

// The half nearest to a value by search, ties to the even pattern.
uint16_t nearest_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  uint16_t low = 0, high = 0x7c00;  // infinity counts as 65536
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (f16_to_f32(middle) <= magnitude ? low : high) = middle;
  }
  const double below = f16_to_f32(low);
  const double above = high == 0x7c00 ? 65536.0 : f16_to_f32(high);
  const double up = above - magnitude, down = magnitude - below;
  const bool take_high = up < down || (up == down && high % 2 == 0);
  return static_cast<uint16_t>(sign | (take_high ? high : low));
}

TEST(FormatsTest, F32IsRoundedToTheNearestHalfTiesToEven) {
  const RngKey key(11);
  for (uint64_t i = 0; i < 200000; ++i) {
    // Exponents from 2^-30 to 2^17, and mantissas that often lie exactly between two halves.
    auto bits = static_cast<uint32_t>(key.bits(i));
    const uint32_t exponent = 97 + (bits >> 8) % 48;
    uint32_t mantissa = bits & 0x7fffff;
    if (i % 3 == 0) mantissa = (mantissa & ~0x1fffu) | 0x1000u;
    const float value = std::bit_cast<float>((bits & 0x80000000u) | exponent << 23 | mantissa);
    ASSERT_EQ(f32_to_f16(value), nearest_half(value)) << value;
  }
  EXPECT_EQ(f32_to_f16(INFINITY), 0x7c00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xfc00);
  EXPECT_EQ(f32_to_f16(65519.9f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
}

TEST(FormatsTest, TypesKnowTheirGgufNumbersAndSizes) {
  EXPECT_EQ(info(WeightType::kQ4_K).gguf_id, 12u);
  EXPECT_EQ(info(WeightType::kBF16).gguf_id, 30u);
  for (int i = 0; i < kWeightTypeCount; ++i) {
    const WeightTypeInfo& format = info(static_cast<WeightType>(i));
    EXPECT_EQ(format.quantised, format.block_elements > 1) << format.name;
  }
}

}  // namespace
}  // namespace lineshaft::kernels
