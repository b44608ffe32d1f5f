// What is at stake: quality as users get it. Perplexity of the int8 profiles on a public text
// may exceed that of float32 weights and activations by 0.6 % (tests/golden/logits/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "model/spec_loader.h"
#include "recipe/tokenizer/tokenizer.h"
#include "support/forward_harness.h"

namespace lineshaft {
namespace {

using testing::ForwardHarness;

constexpr size_t kContext = 512;
constexpr size_t kChunks = 24;
constexpr size_t kStep = 64;

struct Case {
  const char* name;
  const char* environment;
  double reference;
};

class PerplexityTest : public ::testing::TestWithParam<Case> {
 protected:
  void check(kernels::Profile profile, kernels::KvType kv_type = kernels::KvType::kF16);
};

std::vector<TokenId> text_tokens(const model::GgufFile& file) {
  auto data = model::load_tokenizer_data(file);
  EXPECT_TRUE(data.ok()) << data.status();
  const auto tokenizer = recipe::tokenizer_from_data(*std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream in("tests/golden/logits/devils_dictionary.txt", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto ids = (*tokenizer)->encode(text, recipe::Tokenizer::Mode::kSpecial);
  const auto vocab = (*tokenizer)->vocab();
  // The recipe of llama-perplexity: a text begins with BOS, and so does every chunk of it.
  if (vocab->add_bos) {
    ids.insert(ids.begin(), vocab->bos);
    for (size_t c = 0; c < kChunks; ++c) ids[c * kContext] = vocab->bos;
  }
  return ids;
}

TEST_P(PerplexityTest, TwoDigitsStayWithin06PercentOfFloat) {
  check(kernels::Profile::kCpuInt8);
}
TEST_P(PerplexityTest, OneDigitStaysWithin06PercentOfFloat) {
  check(kernels::Profile::kCpuInt8Fast);
}
TEST_P(PerplexityTest, EightBitKvStaysWithin06PercentOfFloat) {
  check(kernels::Profile::kCpuInt8, kernels::KvType::kQ8);
}

void PerplexityTest::check(kernels::Profile profile, kernels::KvType kv_type) {
  const auto file = testing::file_from_environment(GetParam().environment);
  if (file == nullptr) {
    GTEST_SKIP() << GetParam().environment << " does not name the model file";
  }
  const auto ids = text_tokens(*file);
  ASSERT_GE(ids.size(), kChunks * kContext);
  model::ForwardOptions options;
  options.profile = profile;
  options.kv_type = kv_type;
  options.isa = kernels::best_isa();
  options.step_tokens_max = kStep;
  options.logit_rows_max = kStep;
  ForwardHarness harness(testing::load_weights(file), options, 2);
  const auto vocab = static_cast<int64_t>(harness.spec().vocab);
  double sum = 0.0;
  int64_t count = 0;
  for (size_t c = 0; c < kChunks; ++c) {
    const int sequence = harness.add_sequence(kContext);
    const auto chunk = std::span(ids).subspan(c * kContext, kContext);
    for (size_t at = 0; at < kContext; at += kStep) {
      const bool scored = at >= kContext / 2;
      harness.extend(sequence, chunk.subspan(at, kStep), scored);
      for (size_t i = 0; scored && i < kStep && at + i + 1 < kContext; ++i) {
        const float* row = harness.logits(static_cast<int64_t>(i));
        sum += harness.kernels().log_sum_exp(row, vocab) - row[chunk[at + i + 1]];
        ++count;
      }
    }
  }
  ASSERT_EQ(count, 6120);
  const double perplexity = std::exp(sum / static_cast<double>(count));
  std::printf("%s %s %s: perplexity %.4f, float %.4f\n", GetParam().name,
              std::string(kernels::name_of(profile)).c_str(),
              std::string(kernels::name_of(kv_type)).c_str(), perplexity, GetParam().reference);
  EXPECT_LE(perplexity, GetParam().reference * 1.006);
  EXPECT_GE(perplexity, GetParam().reference * 0.994);
}

INSTANTIATE_TEST_SUITE_P(
    Models, PerplexityTest,
    ::testing::Values(Case{"smollm2", "LINESHAFT_SMOLLM2", 38.1147},
                      Case{"gemma3", "LINESHAFT_GEMMA3", 34.6576}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lineshaft
