#include "kernels/types.h"

#include <array>

namespace lineshaft::kernels {
namespace {

// Sizes as ggml-common.h describes them; numbers as in the GGUF specification (ggml_type).
constexpr std::array<WeightTypeInfo, kWeightTypeCount> kInfos = {{
    {"F32", 0, 1, 4, false},
    {"F16", 1, 1, 2, false},
    {"BF16", 30, 1, 2, false},
    {"Q4_0", 2, 32, 18, true},
    {"Q4_1", 3, 32, 20, true},
    {"Q5_0", 6, 32, 22, true},
    {"Q5_1", 7, 32, 24, true},
    {"Q8_0", 8, 32, 34, true},
    {"Q4_K", 12, 256, 144, true},
    {"Q5_K", 13, 256, 176, true},
    {"Q6_K", 14, 256, 210, true},
}};

}  // namespace

const WeightTypeInfo& info(WeightType type) { return kInfos[static_cast<size_t>(type)]; }

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar: return "scalar";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

std::string_view name_of(Profile profile) {
  switch (profile) {
    case Profile::kCpuF32: return "cpu-f32-1";
    case Profile::kCpuInt8: return "cpu-int8-1";
    case Profile::kCpuInt8Fast: return "cpu-int8-2";
  }
  return "unknown";
}

std::string_view name_of(KvType type) {
  switch (type) {
    case KvType::kF32: return "f32";
    case KvType::kF16: return "f16";
    case KvType::kBF16: return "bf16";
    case KvType::kQ8: return "q8";
  }
  return "unknown";
}

}  // namespace lineshaft::kernels
