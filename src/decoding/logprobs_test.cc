// At stake: logprobs are compared with other engines' and summed over texts by users.
#include "decoding/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lineshaft::decoding {
namespace {

const kernels::Kernels& best_kernels() { return kernels::kernels_for(kernels::best_isa()); }

TEST(Logprobs, AgreeWithDoubleSoftmax) {
  std::vector<float> row(1000);
  double total = 0;
  for (int i = 0; i < 1000; ++i) {
    row[i] = static_cast<float>((i * 7919) % 1009) * 0.02f - 10.0f;
    total += std::exp(static_cast<double>(row[i]));
  }
  const auto out = token_logprobs(best_kernels(), row, 17, 5);
  EXPECT_NEAR(out.chosen, row[17] - std::log(total), 2e-6);
  ASSERT_EQ(out.top.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(out.top[i].logprob, row[out.top[i].token] - std::log(total), 2e-6);
    if (i > 0) {
      EXPECT_LT(row[out.top[i].token], row[out.top[i - 1].token]);
    }
  }
}

TEST(Logprobs, TiesGoToTheLowerIdAndOrderIsDescending) {
  const auto top = token_logprobs(best_kernels(), std::vector<float>{1, 2, 1, 2, 0, 1}, 0, 4).top;
  ASSERT_EQ(top.size(), 4u);
  EXPECT_EQ(top[0].token, 1);
  EXPECT_EQ(top[1].token, 3);
  EXPECT_EQ(top[2].token, 0);
  EXPECT_EQ(top[3].token, 2);
  EXPECT_EQ(top[0].logprob, top[1].logprob);
}

TEST(Logprobs, CountsBeyondTheVocabularyAndZero) {
  EXPECT_EQ(token_logprobs(best_kernels(), std::vector<float>{1, 2}, 0, 20).top.size(), 2u);
  EXPECT_TRUE(token_logprobs(best_kernels(), std::vector<float>{1, 2}, 0, 0).top.empty());
}

TEST(Logprobs, NaNShowsInTheChosenTokenAndNeverInTheList) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto out = token_logprobs(best_kernels(), std::vector<float>{1, nan, 2}, 2, 3);
  EXPECT_FALSE(std::isfinite(out.chosen));
  EXPECT_EQ(out.top.size(), 2u);
}

}  // namespace
}  // namespace lineshaft::decoding
