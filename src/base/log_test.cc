// At stake: operators grep these lines, and nothing that a user sends may forge one.
#include "base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace lineshaft {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { set_log(Severity::kWarning); }
  // Lines written, each without its time stamp.
  std::vector<std::string> lines() {
    std::vector<std::string> out;
    std::istringstream in(text_.str());
    for (std::string line; std::getline(in, line);) {
      const size_t space = line.find(' ');
      EXPECT_EQ(space, std::string("2026-01-31T12:00:00.000Z").size()) << line;
      out.push_back(line.substr(space + 1));
    }
    return out;
  }
  std::ostringstream text_;
};

TEST_F(LogTest, WritesNameAndFieldsOnOneLine) {
  set_log(Severity::kInfo, &text_);
  log_event(Severity::kInfo, "request_done", {{"request", 17}, {"seconds", 0.25}, {"ok", true}});
  EXPECT_EQ(lines(), std::vector<std::string>{"info request_done request=17 seconds=0.25 ok=true"});
}

TEST_F(LogTest, DropsWhatIsBelowTheLevel) {
  set_log(Severity::kError, &text_);
  log_event(Severity::kWarning, "hidden");
  log_event(Severity::kError, "shown");
  EXPECT_EQ(lines(), std::vector<std::string>{"error shown"});
  set_log(Severity::kOff, &text_);
  log_event(Severity::kError, "hidden_too");
  EXPECT_EQ(lines().size(), 1u);
}

TEST_F(LogTest, ValuesOfUsersCannotForgeALineOrAField) {
  set_log(Severity::kInfo, &text_);
  log_event(Severity::kInfo, "request",
            {{"model", "a\nb"}, {"path", "x y=\"z\"\\"}, {"raw", std::string("\x01{}", 3)}});
  EXPECT_EQ(lines(), std::vector<std::string>{
                         R"(info request model="a\nb" path="x y=\"z\"\\" raw="\x01{}")"});
}

TEST_F(LogTest, LinesOfManyThreadsDoNotMix) {
  set_log(Severity::kInfo, &text_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) log_event(Severity::kInfo, "tick", {{"i", 1}});
    });
  }
  for (std::thread& t : threads) t.join();
  const auto all = lines();
  EXPECT_EQ(all.size(), 400u);
  for (const std::string& line : all) EXPECT_EQ(line, "info tick i=1");
}

TEST(LogLevel, NamesAreParsedAndOthersRefused) {
  EXPECT_EQ(*parse_severity("warn"), Severity::kWarning);
  EXPECT_EQ(*parse_severity("debug"), Severity::kDebug);
  EXPECT_EQ(parse_severity("loud").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lineshaft
