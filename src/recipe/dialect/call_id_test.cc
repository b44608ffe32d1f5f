// At stake: ids of tool calls must have the checksum that DeepSeek's clients and servers know.
#include "recipe/dialect/call_id.h"

#include <gtest/gtest.h>

namespace lineshaft::recipe {
namespace {

TEST(CallId, ids_of_the_reference_have_our_checksum) {
  for (const char* id :
       {"call_00_ET_0fbd6VObj8PIx6tiPFZd8475", "call_00_ET_9LQco4VZBrFQiK8Ses909795",
        "call_02_zPzZ3b7RjraW6CjTqRRD0616"}) {
    EXPECT_TRUE(is_made_call_id(id)) << id;
  }
  EXPECT_FALSE(is_made_call_id("call_02_zPzZ3b7RjraW6CjTqRRD0617"));
  EXPECT_FALSE(is_made_call_id("call_"));
  EXPECT_FALSE(is_made_call_id(""));
}

TEST(CallId, made_ids_have_the_form) {
  EXPECT_EQ(make_call_id(3, true, 0, 61).substr(0, 31), "call_03_ET_0000000000z000000000");
  EXPECT_EQ(make_call_id(3, false, 1, 2).size(), 8u + 20u + 4u);
  EXPECT_TRUE(is_made_call_id(make_call_id(12, false, ~uint64_t{0}, 77)));
}

}  // namespace
}  // namespace lineshaft::recipe
