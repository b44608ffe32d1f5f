// Names of what kernels work on: instruction sets, numerics profiles, weight and KV formats.
#pragma once

#include <cstdint>
#include <string_view>

namespace lineshaft::kernels {

// Bodies of the kernels. kAvx512 needs F, BW, VL, DQ and VNNI; kAvx2 needs AVX2, FMA and F16C.
// All give equal bits.
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };

// How a model is computed; part of every KV block's name. Two profiles never share KV.
//   cpu-f32-1:  float activations; the oracle against references
//   cpu-int8-1: row-local activations of two int8 digits for quantised weights
//   cpu-int8-2: one digit, two for the input of a feed-forward layer's down projection only, which
//               is where one digit costs the most (docs/numerics.md)
enum class Profile : uint8_t { kCpuF32, kCpuInt8, kCpuInt8Fast };
inline constexpr Profile kProfiles[] = {Profile::kCpuF32, Profile::kCpuInt8,
                                        Profile::kCpuInt8Fast};

// How K and V are stored; part of every KV block's name. kQ8: int8 with f32 scales of their
// own for each position and kv head (docs/numerics.md, N4).
enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8 };
inline constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8};

// Block formats of GGUF (ggml-common.h describes the same layouts).
enum class WeightType : uint8_t {
  kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K,
};
inline constexpr int kWeightTypeCount = 11;

struct WeightTypeInfo {
  std::string_view name;     // "Q4_1"
  uint32_t gguf_id;          // ggml_type number
  int32_t block_elements;    // a row's length is a multiple of this
  int32_t block_bytes;
  bool quantised;            // int8 profile applies
};

const WeightTypeInfo& info(WeightType type);
std::string_view name_of(Isa isa);         // "scalar", "avx2", "avx512"
std::string_view name_of(Profile profile); // "cpu-f32-1", "cpu-int8-1", "cpu-int8-2"
std::string_view name_of(KvType type);     // "f32", "f16", "bf16", "q8"

}  // namespace lineshaft::kernels
