// At stake: what a person typed is what the model is asked, and nothing that was taken back stays.
#include "lineshaft/dialogue.h"

#include <gtest/gtest.h>

namespace lineshaft::app {
namespace {

using Action = Dialogue::Action;
using recipe::Role;

std::string said(const Dialogue& dialogue) {
  std::string out;
  for (const recipe::Turn& turn : dialogue.conversation().turns) {
    out += std::string(1, "sua"[static_cast<int>(turn.role)]) + ":" + turn.content + "|";
  }
  return out;
}

TEST(Dialogue, RemembersTurnsInOrder) {
  Dialogue d("be kind", {});
  EXPECT_EQ(d.enter("  hello ").action, Action::kAnswer);
  d.add_answer("hi");
  EXPECT_EQ(d.enter("and?").action, Action::kAnswer);
  EXPECT_EQ(said(d), "s:be kind|u:hello|a:hi|u:and?|");
}

TEST(Dialogue, AnEmptyAnswerTakesTheQuestionBack) {
  Dialogue d("", {});
  d.enter("hello");
  d.add_answer("");
  EXPECT_EQ(said(d), "");
}

TEST(Dialogue, RegenerateAsksTheLastQuestionAgainWithAnotherSeed) {
  Dialogue d("", {});
  EXPECT_EQ(d.enter("/regen").action, Action::kNone);
  d.enter("hello");
  const uint64_t first = d.sampling().seed;
  d.add_answer("hi");
  EXPECT_EQ(d.enter("/regen").action, Action::kAnswer);
  EXPECT_EQ(said(d), "u:hello|");
  EXPECT_NE(d.sampling().seed, first);
}

TEST(Dialogue, AnUnknownCommandIsNeverSentToTheModel) {
  Dialogue d("", {});
  const auto outcome = d.enter("/rest");
  EXPECT_EQ(outcome.action, Action::kNone);
  EXPECT_NE(outcome.text.find("did you mean /reset"), std::string::npos);
  EXPECT_EQ(said(d), "");
}

TEST(Dialogue, SetChecksItsRange) {
  Dialogue d("", {});
  d.enter("/set temperature 0.5");
  EXPECT_EQ(d.sampling().temperature, 0.5);
  for (const char* bad : {"/set temperature 3", "/set temperature x", "/set top-p 0",
                          "/set max-tokens 0", "/set wings 2", "/set seed -1"}) {
    EXPECT_EQ(d.enter(bad).action, Action::kNone) << bad;
  }
  EXPECT_EQ(d.sampling().temperature, 0.5);
  EXPECT_EQ(d.sampling().top_p, 1.0);
}

TEST(Dialogue, TheSameSeedRepeatsADialogue) {
  Dialogue a("", {}), b("", {});
  a.enter("/set seed 7");
  b.enter("x");
  b.add_answer("y");
  b.enter("/set seed 7");
  EXPECT_EQ(a.sampling().seed, b.sampling().seed);
}

TEST(Dialogue, SystemAndResetBeginAnew) {
  Dialogue d("", {});
  d.enter("hello");
  d.add_answer("hi");
  d.enter("/system speak Latin");
  EXPECT_EQ(said(d), "s:speak Latin|");
  d.enter("ave");
  d.add_answer("salve");
  d.enter("/reset");
  EXPECT_EQ(said(d), "s:speak Latin|");
}

TEST(Quotes, BeginAndEndTextOfSeveralLines) {
  EXPECT_TRUE(wants_more_lines("\"\"\"first"));
  EXPECT_TRUE(wants_more_lines("\"\"\""));
  EXPECT_TRUE(wants_more_lines("\"\"\"\""));
  EXPECT_FALSE(wants_more_lines("\"\"\"first\nsecond\"\"\""));
  EXPECT_FALSE(wants_more_lines("plain \"\"\""));
  EXPECT_EQ(without_quotes("\"\"\"first\n second\"\"\""), "first\n second");
  EXPECT_EQ(without_quotes("plain"), "plain");
}

}  // namespace
}  // namespace lineshaft::app
