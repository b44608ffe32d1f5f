#include "base/queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "base/rng.h"

namespace lineshaft {
namespace {

TEST(BoundedQueue, KeepsOrderWhileItGrowsAndWraps) {
  const RngKey key(4);
  for (const size_t capacity : {1u, 3u, 4u, 5u, 64u}) {
    BoundedQueue<std::unique_ptr<int>> queue(capacity);
    std::deque<int> expected;
    for (int i = 0; i < 2000; ++i) {
      if (key.below(static_cast<uint64_t>(i), 2) == 0) {
        auto item = std::make_unique<int>(i);
        const bool pushed = queue.try_push(std::move(item));
        ASSERT_EQ(pushed, expected.size() < capacity);
        ASSERT_EQ(item == nullptr, pushed) << "a refused item is left as it was";
        if (pushed) expected.push_back(i);
      } else {
        const auto got = queue.try_pop();
        ASSERT_EQ(got.has_value(), !expected.empty());
        if (!got) continue;
        ASSERT_EQ(**got, expected.front());
        expected.pop_front();
      }
      ASSERT_EQ(queue.size(), expected.size());
    }
  }
}

TEST(BoundedQueue, ClosedTakesNothingAndGivesWhatItHas) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(7));
  queue.close();
  EXPECT_FALSE(queue.try_push(8));
  EXPECT_EQ(queue.pop(), 7);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

}  // namespace
}  // namespace lineshaft
