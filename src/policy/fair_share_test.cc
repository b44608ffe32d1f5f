// What is at stake: one long prompt must not hold up many short ones, nor they it.
#include "policy/fair_share.h"

#include <gtest/gtest.h>

#include <array>

namespace lineshaft::policy {
namespace {

// Serves each bucket from `left[bucket]` pieces that cost `piece[bucket]` each.
struct Pieces {
  std::array<int, kBuckets> left{};
  std::array<double, kBuckets> piece{};
  std::array<double, kBuckets> spent{};

  double run(FairShare& share, double budget) {
    return share.run(budget, [&](int bucket, double ms) -> std::optional<double> {
      const size_t b = static_cast<size_t>(bucket);
      if (left[b] == 0) return std::nullopt;
      if (piece[b] > ms) return FairShare::kTooDear;
      --left[b];
      spent[b] += piece[b];
      return piece[b];
    });
  }
};

TEST(FairShare, BucketsOfUnequalPiecesSpendEqualTime) {
  FairShare share(1.0);
  Pieces pieces;
  pieces.left = {100000, 100000, 100000, 100000};
  pieces.piece = {0.1, 0.5, 1.5, 4.0};
  for (int step = 0; step < 400; ++step) pieces.run(share, 10.0);
  for (const double spent : pieces.spent) EXPECT_NEAR(spent, pieces.spent[0], 10.0);
  EXPECT_GT(pieces.spent[0], 850.0) << "all but the leftovers that the dearest pieces don't fit";
}

TEST(FairShare, AnEmptyBucketLeavesItsTimeToOthersAndSavesNothing) {
  FairShare share(1.0);
  Pieces pieces;
  pieces.left = {0, 1000, 0, 0};
  pieces.piece = {0.1, 1.0, 0.1, 0.1};
  EXPECT_NEAR(pieces.run(share, 100.0), 0.0, 1e-9);
  EXPECT_NEAR(pieces.spent[1], 100.0, 1e-9);
  pieces.left[0] = 100000;
  pieces.run(share, 100.0);
  EXPECT_NEAR(pieces.spent[0], 50.0, 2.0);
}

TEST(FairShare, ReturnsWhatNobodyWanted) {
  FairShare share(1.0);
  Pieces pieces;
  pieces.left = {2, 0, 1, 0};
  pieces.piece = {1.0, 1.0, 3.0, 1.0};
  EXPECT_NEAR(pieces.run(share, 100.0), 95.0, 1e-9);
}

TEST(FairShare, APieceAboveTheBudgetIsLeftAlone) {
  FairShare share(1.0);
  Pieces pieces;
  pieces.left = {0, 0, 0, 1};
  pieces.piece = {1.0, 1.0, 1.0, 50.0};
  EXPECT_NEAR(pieces.run(share, 10.0), 10.0, 1e-9);
  EXPECT_EQ(pieces.left[3], 1);
}

TEST(FairShare, BoundariesAreMultiplesOfAStep) {
  EXPECT_EQ(bucket_of(50.0, 50.0), 0);
  EXPECT_EQ(bucket_of(51.0, 50.0), 1);
  EXPECT_EQ(bucket_of(201.0, 50.0), 2);
  EXPECT_EQ(bucket_of(801.0, 50.0), 3);
}

}  // namespace
}  // namespace lineshaft::policy
