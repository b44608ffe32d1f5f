// The fuzz target on seeds and on seeded damage to them, in every build (sanitizers included).
#include <gtest/gtest.h>

#include "support/gguf_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lineshaft {
namespace {

TEST(GgufFuzzTest, SeedsAndDamagedSeedsGiveAnAnswer) {
  const RngKey key(41);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    auto model = testing::tiny_model(static_cast<ModelFamily>(seed % 4),
                                     kernels::WeightType::kQ4_0, seed);
    model.layers = 1;
    auto bytes = testing::tiny_gguf(model);
    const RngKey draws = key.split(seed);
    for (uint64_t i = 0; i < seed % 8; ++i) {
      const uint64_t reach = std::min<uint64_t>(bytes.size(), i % 2 == 0 ? 1500 : bytes.size());
      bytes[draws.below(2 * i, reach)] = static_cast<std::byte>(draws.below(2 * i + 1, 256));
    }
    if (seed % 5 == 0) bytes.resize(draws.below(99, bytes.size()));
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}

}  // namespace
}  // namespace lineshaft
