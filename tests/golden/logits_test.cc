// What is at stake: that the forward pass computes the models, and not something like them. Judged
// by float32 references of an independent implementation (tests/golden/logits/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/forward_harness.h"
#include "support/safetensors.h"

namespace lineshaft {
namespace {

using kernels::KvType;
using kernels::Profile;
using testing::ForwardHarness;
using testing::Safetensors;

constexpr int32_t kChunk = 64;           // rows of a step here, all with logits
constexpr int32_t kGreedyTokens = 64;

struct GoldenModel {
  const char* name;
  const char* environment;
};
constexpr GoldenModel kModels[] = {{"smollm2", "LINESHAFT_SMOLLM2"},
                                   {"gemma3", "LINESHAFT_GEMMA3"}};

// What the forward pass says about one prompt.
struct PromptResult {
  std::vector<float> target_logprobs;  // of token t + 1 at row t
  std::vector<int32_t> argmax;         // at each row
  std::vector<float> last_logits;
  int sequence = 0;
};

PromptResult run_prompt(ForwardHarness& harness, const std::vector<TokenId>& ids) {
  PromptResult out;
  out.sequence = harness.add_sequence(static_cast<int32_t>(ids.size()) + kGreedyTokens);
  const auto vocab = static_cast<size_t>(harness.spec().vocab);
  for (size_t at = 0; at < ids.size(); at += kChunk) {
    const size_t count = std::min<size_t>(kChunk, ids.size() - at);
    harness.extend(out.sequence, std::span(ids).subspan(at, count), true);
    for (size_t i = 0; i < count; ++i) {
      const float* row = harness.logits(static_cast<int64_t>(i));
      const auto n = static_cast<int64_t>(vocab);
      out.argmax.push_back(static_cast<int32_t>(harness.kernels().argmax(row, n)));
      if (at + i + 1 < ids.size()) {
        const float sum = harness.kernels().log_sum_exp(row, n);
        out.target_logprobs.push_back(row[ids[at + i + 1]] - sum);
      } else {
        out.last_logits.assign(row, row + vocab);
      }
    }
  }
  return out;
}

double log_sum_exp(const std::vector<float>& logits) {
  const double max = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum);
}

class LogitsTest : public ::testing::TestWithParam<GoldenModel> {
 protected:
  void SetUp() override {
    auto file = testing::file_from_environment(GetParam().environment);
    if (file == nullptr) {
      GTEST_SKIP() << GetParam().environment << " does not name the model file";
    }
    weights_ = testing::load_weights(std::move(file));
    golden_ = std::make_unique<Safetensors>(
        std::string("tests/golden/logits/") + GetParam().name + ".safetensors");
    for (const auto& name : golden_->names()) {
      if (name.ends_with(".ids")) prompts_.push_back(name.substr(0, name.size() - 4));
    }
    ASSERT_EQ(prompts_.size(), 9u);
  }

  ForwardHarness make_harness(Profile profile, KvType kv_type) const {
    model::ForwardOptions options;
    options.profile = profile;
    options.kv_type = kv_type;
    options.isa = kernels::best_isa();
    options.step_tokens_max = kChunk;
    options.logit_rows_max = kChunk;
    return ForwardHarness(weights_, options, 2);
  }

  std::shared_ptr<const model::Weights> weights_;
  std::unique_ptr<Safetensors> golden_;
  std::vector<std::string> prompts_;
};

std::string model_name(const ::testing::TestParamInfo<GoldenModel>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Models, LogitsTest, ::testing::ValuesIn(kModels), model_name);

TEST_P(LogitsTest, FloatProfileAgreesWithTheReferenceWithin2e3) {
  constexpr float kTolerance = 2e-3f;
  auto harness = make_harness(Profile::kCpuF32, KvType::kF32);
  double worst = 0.0;
  for (const auto& name : prompts_) {
    SCOPED_TRACE(name);
    const auto ids = golden_->integers(name + ".ids");
    const auto result = run_prompt(harness, ids);
    const auto top = golden_->integers(name + ".last_top64_ids");
    const auto top_logits = golden_->floats(name + ".last_top64_logits");
    for (size_t i = 0; i < top.size(); ++i) {
      const float got = result.last_logits[static_cast<size_t>(top[i])];
      EXPECT_NEAR(got, top_logits[i], kTolerance) << "token " << top[i];
      worst = std::max(worst, std::fabs(static_cast<double>(got) - top_logits[i]));
    }
    EXPECT_NEAR(log_sum_exp(result.last_logits), golden_->floats(name + ".last_logsumexp")[0],
                kTolerance);
    const auto targets = golden_->floats(name + ".target_logprobs");
    ASSERT_EQ(result.target_logprobs.size(), targets.size());
    for (size_t t = 0; t < targets.size(); ++t) {
      ASSERT_NEAR(result.target_logprobs[t], targets[t], kTolerance) << "position " << t;
      worst = std::max(worst, std::fabs(static_cast<double>(result.target_logprobs[t]) -
                                        targets[t]));
    }
    const auto argmax = golden_->integers(name + ".argmax_ids");
    const auto margins = golden_->floats(name + ".argmax_margin");
    for (size_t t = 0; t < argmax.size(); ++t) {
      if (margins[t] > 2 * kTolerance) {
        ASSERT_EQ(result.argmax[t], argmax[t]) << "position " << t;
      }
    }
    auto next = static_cast<TokenId>(harness.kernels().argmax(
        result.last_logits.data(), static_cast<int64_t>(result.last_logits.size())));
    const auto greedy = golden_->integers(name + ".greedy_ids");
    ASSERT_EQ(greedy.size(), static_cast<size_t>(kGreedyTokens));
    for (size_t i = 0; i < greedy.size(); ++i) {
      ASSERT_EQ(next, greedy[i]) << "greedy token " << i;
      harness.extend(result.sequence, {&next, 1}, false);
      next = static_cast<TokenId>(harness.kernels().argmax(harness.logits(0),
                                                           harness.spec().vocab));
    }
  }
  std::printf("%s cpu-f32-1: largest difference %.2e\n", GetParam().name, worst);
}

// Largest mean difference of a prompt's top log-probs that a profile may have: the bound of the
// field for int8 activations, and a tenth of it for the profile that promises more.
struct Int8Profile {
  Profile profile;
  double mean_difference_max;
  KvType kv_type = KvType::kF16;
};
class Int8LogitsTest : public LogitsTest {
 protected:
  void check(const Int8Profile& profile);
};
INSTANTIATE_TEST_SUITE_P(Models, Int8LogitsTest, ::testing::ValuesIn(kModels), model_name);

TEST_P(Int8LogitsTest, TwoDigitsKeepClearChoicesAndLogprobs) { check({Profile::kCpuInt8, 0.02}); }
TEST_P(Int8LogitsTest, OneDigitKeepsClearChoicesAndLogprobs) {
  check({Profile::kCpuInt8Fast, 0.2});
}
TEST_P(Int8LogitsTest, Bf16KvKeepsClearChoicesAndLogprobs) {
  check({Profile::kCpuInt8, 0.05, KvType::kBF16});
}
TEST_P(Int8LogitsTest, EightBitKvKeepsClearChoicesAndLogprobs) {
  check({Profile::kCpuInt8, 0.2, KvType::kQ8});
}

void Int8LogitsTest::check(const Int8Profile& profile) {
  constexpr float kClearMargin = 0.5f;
  auto harness = make_harness(profile.profile, profile.kv_type);
  double worst = 0.0;
  for (const auto& name : prompts_) {
    SCOPED_TRACE(name);
    const auto ids = golden_->integers(name + ".ids");
    const auto result = run_prompt(harness, ids);
    const auto argmax = golden_->integers(name + ".argmax_ids");
    const auto margins = golden_->floats(name + ".argmax_margin");
    for (size_t t = 0; t < argmax.size(); ++t) {
      if (margins[t] > kClearMargin) {
        EXPECT_EQ(result.argmax[t], argmax[t]) << "position " << t << ", margin " << margins[t];
      }
    }
    const auto top = golden_->integers(name + ".last_top64_ids");
    const auto top_logits = golden_->floats(name + ".last_top64_logits");
    const double golden_sum = golden_->floats(name + ".last_logsumexp")[0];
    const double sum = log_sum_exp(result.last_logits);
    double difference = 0.0;
    for (size_t i = 0; i < top.size(); ++i) {
      const double got = result.last_logits[static_cast<size_t>(top[i])] - sum;
      difference += std::fabs(got - (top_logits[i] - golden_sum));
    }
    difference /= static_cast<double>(top.size());
    EXPECT_LE(difference, profile.mean_difference_max);
    worst = std::max(worst, difference);
  }
  std::printf("%s %s %s: largest mean log-prob difference of a prompt %.4f\n", GetParam().name,
              std::string(kernels::name_of(profile.profile)).c_str(),
              std::string(kernels::name_of(profile.kv_type)).c_str(), worst);
}

}  // namespace
}  // namespace lineshaft
