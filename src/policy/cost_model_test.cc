// What is at stake: a prediction that drifts makes steps too long for whoever waits for the next
// token, or too short to get prompts done.
#include "policy/cost_model.h"

#include <gtest/gtest.h>

namespace lineshaft::policy {
namespace {

constexpr StepCost kCost = {2.0, 0.5, 0.25, 0.001};

TEST(StepShape, CountsPairsRowByRow) {
  for (const int32_t first : {0, 1, 7, 100}) {
    for (const int32_t count : {1, 2, 17}) {
      int64_t pairs = 0;
      for (int32_t i = first; i < first + count; ++i) pairs += i + 1;
      StepShape shape;
      shape.add(first, count, true);
      EXPECT_EQ(shape.pairs, pairs);
      EXPECT_EQ(shape.rows, count);
      EXPECT_EQ(shape.samples, 1);
    }
  }
}

TEST(CostModel, PredictsTheTable) {
  StepShape shape;
  shape.add(9, 1, true);
  shape.add(0, 4, false);
  EXPECT_DOUBLE_EQ(CostModel(kCost).predict_ms(shape), 2.0 + 5 * 0.5 + 0.25 + 20 * 0.001);
}

TEST(CostModel, FindsTheLargestChunkThatFits) {
  const CostModel model(kCost);
  for (const double ms : {0.0, 0.4, 0.6, 3.0, 17.0, 500.0}) {
    for (const int32_t first : {0, 50, 4000}) {
      const int32_t rows = model.rows_within(ms, first, 64);
      EXPECT_LE(model.chunk_ms(first, rows, false), ms);
      if (rows < 64) {
        EXPECT_GT(model.chunk_ms(first, rows + 1, false), ms);
      }
    }
  }
}

TEST(CostModel, LearnsASlowerMachineAndForgetsOneBadStep) {
  CostModel model(kCost);
  StepShape shape;
  shape.add(0, 8, true);
  const double table_ms = model.predict_ms(shape);
  for (int i = 0; i < 40; ++i) model.observe(shape, Duration::from_milliseconds(2 * table_ms));
  EXPECT_NEAR(model.predict_ms(shape), 2 * table_ms, 1e-3 * table_ms);
  for (int i = 0; i < 5; ++i) model.observe(shape, Duration::from_milliseconds(500 * table_ms));
  EXPECT_NEAR(model.predict_ms(shape), 2 * table_ms, 1e-3 * table_ms);
  StepShape prompt = shape;
  prompt.has_prompt = true;
  EXPECT_DOUBLE_EQ(model.predict_ms(prompt), table_ms) << "learned from decode steps only";
}

TEST(CostModel, ATableOfZerosStaysUsable) {
  CostModel model(StepCost{});
  StepShape shape;
  shape.add(0, 8, true);
  model.observe(shape, Duration::milliseconds(5));
  EXPECT_DOUBLE_EQ(model.predict_ms(shape), 0.0);
  EXPECT_EQ(model.rows_within(0.0, 0, 64), 64);
}

}  // namespace
}  // namespace lineshaft::policy
