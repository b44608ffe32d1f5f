// What is at stake: what can never run is refused at once and with the numbers; what can run is
// not; and one tenant can't take the place of the others.
#include "policy/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lineshaft::policy {
namespace {

using testing::HasSubstr;

AdmissionConfig config() {
  AdmissionConfig out;
  out.limits.block_tokens = 16;
  out.limits.kv_blocks = 4;  // 64 slots
  out.limits.context_tokens = 100;
  out.limits.queue_max = 3;
  out.limits.choices_max = 4;
  return out;
}

Status admit(Admission& admission, Order order, int32_t waiting = 0, Instant now = {}) {
  return admission.admit(order, waiting, Duration::seconds(7), now);
}

std::string sentence(const Status& status) { return std::string(message_of(status)); }

TEST(Admission, TakesExactlyWhatFitsThePoolAlone) {
  Admission admission(config());
  EXPECT_TRUE(admit(admission, {"", 60, 5, 1}).ok());  // 64 inputs; the last token is none
  const Status refused = admit(admission, {"", 60, 6, 1});
  EXPECT_EQ(refused.code(), StatusCode::kOutOfRange);
  EXPECT_THAT(sentence(refused), HasSubstr("60 tokens and 6 generated"));
  EXPECT_THAT(sentence(refused), HasSubstr("64 tokens"));
}

TEST(Admission, TakesExactlyWhatFitsTheContext) {
  AdmissionConfig ample = config();
  ample.limits.kv_blocks = 1000;
  Admission admission(ample);
  EXPECT_TRUE(admit(admission, {"", 99, 1, 1}).ok());
  EXPECT_EQ(admit(admission, {"", 99, 2, 1}).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(admit(admission, {"", 100, 1, 1}).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(admit(admission, {"", int64_t{1} << 62, int64_t{1} << 62, 1}).code(),
            StatusCode::kOutOfRange);
}

TEST(Admission, NamesTheFieldThatIsWrong) {
  Admission admission(config());
  EXPECT_THAT(sentence(admit(admission, {"", 0, 1, 1})), HasSubstr("prompt"));
  EXPECT_THAT(sentence(admit(admission, {"", 1, 0, 1})), HasSubstr("max_tokens"));
  EXPECT_THAT(sentence(admit(admission, {"", 1, 1, 5})), HasSubstr("n: 5"));
  EXPECT_EQ(admit(admission, {"", 1, 1, 0}).code(), StatusCode::kInvalidArgument);
}

TEST(Admission, AFullQueueSaysWhenToComeBack) {
  Admission admission(config());
  EXPECT_TRUE(admit(admission, {"", 1, 1, 1}, 2).ok());
  const Status refused = admit(admission, {"", 1, 1, 1}, 3);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(retry_after_of(refused), Duration::seconds(7));
}

TEST(Admission, CountsATenantsUnfinishedRequests) {
  AdmissionConfig limited = config();
  limited.tenants["a"].requests_max = 2;
  Admission admission(limited);
  EXPECT_TRUE(admit(admission, {"a", 1, 1, 1}).ok());
  EXPECT_TRUE(admit(admission, {"a", 1, 1, 1}).ok());
  const Status refused = admit(admission, {"a", 1, 1, 1});
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(retry_after_of(refused).has_value());
  EXPECT_TRUE(admit(admission, {"b", 1, 1, 1}).ok()) << "others are not concerned";
  admission.leave("a");
  EXPECT_TRUE(admit(admission, {"a", 1, 1, 1}).ok());
}

TEST(Admission, TokensComeBackWithTheMinute) {
  AdmissionConfig limited = config();
  limited.default_limits.tokens_per_minute = 60;
  Admission admission(limited);
  const Instant start = Instant{} + Duration::seconds(1000);
  EXPECT_TRUE(admit(admission, {"a", 30, 5, 1}, 0, start).ok());
  admission.charge("a", 40, start);  // a debt of 10: 10 s, and one for a token to have
  const Status refused = admit(admission, {"a", 1, 1, 1}, 0, start);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(retry_after_of(refused), Duration::seconds(11));
  EXPECT_FALSE(admit(admission, {"a", 1, 1, 1}, 0, start + Duration::seconds(10)).ok());
  EXPECT_TRUE(admit(admission, {"a", 1, 1, 1}, 0, start + Duration::seconds(11)).ok());
}

TEST(Admission, AnIdleHourEarnsNoMoreThanAMinute) {
  AdmissionConfig limited = config();
  limited.default_limits.tokens_per_minute = 60;
  Admission admission(limited);
  EXPECT_TRUE(admit(admission, {"a", 1, 1, 1}).ok());
  const Instant later = Instant{} + Duration::seconds(3600);
  admission.charge("a", 61, later);
  EXPECT_FALSE(admit(admission, {"a", 1, 1, 1}, 0, later).ok());
}

TEST(Admission, ARefusalChargesNothing) {
  AdmissionConfig limited = config();
  limited.default_limits.requests_max = 1;
  Admission admission(limited);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(admit(admission, {"a", 1, 1, 1}, 3).ok());
  EXPECT_TRUE(admit(admission, {"a", 1, 1, 1}).ok());
}

}  // namespace
}  // namespace lineshaft::policy
