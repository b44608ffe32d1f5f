// At stake: what is kept for clients stays within its bounds and is nobody else's.
#include "api/response_store.h"

#include <gtest/gtest.h>

#include <string>

namespace lineshaft::api {
namespace {

StoredResponse stored(int number, size_t bytes = 10, std::string tenant = "") {
  StoredResponse out;
  out.id = "resp_" + std::to_string(number);
  out.tenant = std::move(tenant);
  out.input = Json::array({std::string(bytes, 'x')});
  out.response = {{"id", out.id}};
  return out;
}

TEST(ResponseStore, the_oldest_go_first) {
  ResponseStore store(size_t{1} << 20, 3);
  for (int i = 0; i < 5; ++i) store.put(stored(i));
  EXPECT_EQ(store.find("resp_1", ""), nullptr);
  EXPECT_NE(store.find("resp_2", ""), nullptr);
  EXPECT_TRUE(store.erase("resp_2", ""));
  EXPECT_FALSE(store.erase("resp_2", ""));
}

TEST(ResponseStore, bytes_are_bounded_whatever_comes) {
  ResponseStore store(20'000, 1000);
  for (int i = 0; i < 200; ++i) {
    store.put(stored(i, static_cast<size_t>(i) * 10));
    EXPECT_LE(store.bytes(), 20'000u);
  }
  store.put(stored(500, 30'000));
  EXPECT_EQ(store.find("resp_500", ""), nullptr);
  EXPECT_NE(store.find("resp_199", ""), nullptr);
  for (int i = 0; i < 200; ++i) store.erase("resp_" + std::to_string(i), "");
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, a_tenant_sees_its_own) {
  ResponseStore store;
  store.put(stored(1, 10, "a"));
  EXPECT_EQ(store.find("resp_1", "b"), nullptr);
  EXPECT_FALSE(store.erase("resp_1", "b"));
  EXPECT_NE(store.find("resp_1", "a"), nullptr);
}

}  // namespace
}  // namespace lineshaft::api
