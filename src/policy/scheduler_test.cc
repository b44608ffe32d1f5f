// What is at stake: whose tokens come when. Each test drives the scheduler by hand, one plan and
// one answer at a time; the random runs are in tests/scenarios.
#include "policy/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lineshaft::policy {
namespace {

SchedulerConfig config() {
  SchedulerConfig out;
  out.limits.block_tokens = 16;
  out.limits.kv_blocks = 64;
  out.limits.context_tokens = 512;
  out.limits.sequences_max = 8;
  out.limits.step_tokens_max = 256;
  out.cost = {0.0, 1.0, 0.0, 0.0};  // a millisecond a row
  out.step_ms = 64.0;
  out.prompt_step_ms = 64.0;
  return out;
}

// Drives a scheduler as an engine would. `text` names the content of prompts: sequences with equal
// text share all blocks.
class Driver {
 public:
  explicit Driver(SchedulerConfig config) : config_(config), scheduler(config) {}

  SeqId add(int32_t prompt, int32_t generate, uint8_t text = 0,
            Priority priority = Priority::kNormal) {
    SeqSpec spec;
    spec.seq = SeqId{++last_};
    spec.priority = priority;
    spec.arrival = now;
    spec.prompt_tokens = prompt;
    spec.length_max = prompt + generate;
    const uint8_t content = text == 0 ? static_cast<uint8_t>(100 + last_) : text;
    for (int32_t i = 0; i < prompt / config_.limits.block_tokens; ++i) {
      BlockHash hash;
      hash.bytes[0] = content;
      hash.bytes[1] = static_cast<uint8_t>(i);
      spec.hashes.push_back(hash);
    }
    const SeqId seq = spec.seq;
    scheduler.add(std::move(spec));
    return seq;
  }

  // The next plan as rows by sequence; empty when there is none.
  std::map<uint64_t, int32_t> plan() {
    std::map<uint64_t, int32_t> rows;
    auto next = scheduler.plan(now);
    scheduler.audit();
    if (!next) return rows;
    for (const SeqWork& work : next->work) {
      rows[work.seq.value] = work.count;
      firsts[work.seq.value] = work.first;
    }
    plans_.push_back(std::move(*next));
    return rows;
  }

  // The worker answers the oldest plan; sequences in `ended` stop with this step.
  void answer(const std::set<uint64_t>& ended = {}) {
    const StepPlan done = plans_.front();
    plans_.erase(plans_.begin());
    std::vector<SeqOutcome> outcomes;
    for (const SeqWork& work : done.work) {
      SeqOutcome outcome;
      outcome.seq = work.seq;
      outcome.skipped = stopped_.contains(work.seq.value);
      if (!outcome.skipped && work.sample) {
        outcome.ended = ended.contains(work.seq.value);
        outcome.token = !outcome.ended;
        if (outcome.ended) stopped_.insert(work.seq.value);
        const Sequence* seq = scheduler.find(work.seq);
        if (outcome.token && seq->known + 1 == seq->length_max) outcome.ended = true;
        if (outcome.token && (seq->known + 1) % config_.limits.block_tokens == 0) {
          BlockHash hash;
          hash.bytes[2] = static_cast<uint8_t>(work.seq.value);
          hash.bytes[3] = static_cast<uint8_t>(seq->known);
          outcome.hash = hash;
        }
      }
      outcomes.push_back(outcome);
    }
    const StepCost& cost = config_.cost;
    const auto took = Duration::from_milliseconds(cost.base_ms + done.row_count * cost.row_ms);
    scheduler.on_step_done(done.step, outcomes, took);
    scheduler.audit();
    now = now + took;
  }

  // Plans and answers until nothing is left; the steps it took.
  int finish() {
    int steps = 0;
    while (!plans_.empty()) answer();
    while (!scheduler.idle() && steps < 10'000) {
      if (plan().empty()) break;
      answer();
      ++steps;
    }
    EXPECT_TRUE(scheduler.idle());
    return steps;
  }

  const SchedulerConfig config_;
  Scheduler scheduler;
  Instant now;
  std::map<uint64_t, int32_t> firsts;  // where each sequence's last planned rows began

 private:
  uint64_t last_ = 0;
  std::vector<StepPlan> plans_;
  std::set<uint64_t> stopped_;
};

using Rows = std::map<uint64_t, int32_t>;

TEST(Scheduler, ALongPromptGoesInChunksOfTheBudget) {
  Driver d(config());
  d.add(150, 2);
  EXPECT_EQ(d.plan(), (Rows{{1, 64}}));
  d.answer();
  EXPECT_EQ(d.plan(), (Rows{{1, 64}}));
  d.answer();
  EXPECT_EQ(d.plan(), (Rows{{1, 22}}));
  d.answer();
  EXPECT_EQ(d.plan(), (Rows{{1, 1}}));
  d.answer();
  EXPECT_TRUE(d.scheduler.idle());
}

TEST(Scheduler, DecodeRowsComeFirstAndPromptsFillTheRest) {
  Driver d(config());
  d.add(10, 50);
  d.add(10, 50);
  EXPECT_EQ(d.plan(), (Rows{{1, 10}, {2, 10}}));
  d.answer();
  d.add(200, 5);
  const Rows rows = d.plan();
  EXPECT_EQ(rows.at(1), 1);
  EXPECT_EQ(rows.at(2), 1);
  EXPECT_EQ(rows.at(3), 48) << "62 ms are left; chunks end at multiples of 16";
}

TEST(Scheduler, PromptsStretchAStepThatDecodeTakesWhollyByThreeQuarters) {
  SchedulerConfig c = config();
  c.cost = {100.0, 1.0, 0.0, 0.0};  // each step is over its 64 ms already
  c.prompt_step_ms = 200.0;
  Driver d(c);
  d.add(10, 50);
  d.plan();
  d.answer();
  d.add(200, 5);
  EXPECT_EQ(d.plan(), (Rows{{1, 1}, {2, 64}})) << "75 ms of a decode step of 101";
}

TEST(Scheduler, WhereSixteenRowsAreTooDearFourGo) {
  SchedulerConfig c = config();
  c.cost = {1.0, 6.0, 0.0, 0.0};  // 16 rows cost 96 ms; 57 are left beside the decode row
  Driver d(c);
  d.add(1, 50);
  d.plan();
  d.answer();
  d.add(200, 5);
  EXPECT_EQ(d.plan(), (Rows{{1, 1}, {2, 8}}));
}

TEST(Scheduler, EvenWhereTheSmallestChunkIsTooDearOneGoesEveryFourthStep) {
  SchedulerConfig c = config();
  c.cost = {0.0, 20.0, 0.0, 0.0};  // 16 rows cost five budgets
  Driver d(c);
  d.add(1, 50);
  d.plan();
  d.answer();
  d.add(40, 5);
  int steps = 1;
  while (!d.plan().contains(2)) {
    d.answer();
    ASSERT_LE(++steps, 4);
  }
}

TEST(Scheduler, PlanningAheadCountsRowsInFlightAsDone) {
  Driver d(config());
  d.add(70, 3);
  EXPECT_EQ(d.plan(), (Rows{{1, 64}}));
  EXPECT_EQ(d.plan(), (Rows{{1, 6}}));
  d.answer();
  EXPECT_EQ(d.plan(), (Rows{{1, 1}})) << "the input of this row is not known yet";
  EXPECT_EQ(d.firsts[1], 70);
  d.answer();
  EXPECT_EQ(d.plan(), (Rows{{1, 1}}));
  d.answer();
  EXPECT_EQ(d.plan(), Rows{}) << "the third token is the last, and in flight";
  d.answer();
  EXPECT_TRUE(d.scheduler.idle());
  EXPECT_EQ(d.scheduler.ledger().held(), 0);
}

TEST(Scheduler, AStopLeavesOneRowToSkipAndBlocksStayUntilItsAnswer) {
  Driver d(config());
  d.add(10, 50);
  d.plan();
  d.plan();
  d.answer({1});
  EXPECT_EQ(d.scheduler.ledger().held(), 1) << "a plan in flight names its block";
  d.answer();
  EXPECT_EQ(d.scheduler.ledger().held(), 0);
  EXPECT_EQ(d.scheduler.counters().skipped_rows, 1u);
}

TEST(Scheduler, ACancelledSequenceKeepsItsBlocksUntilTheAnswer) {
  Driver d(config());
  const SeqId seq = d.add(40, 50);
  d.plan();
  d.scheduler.end(seq);
  EXPECT_EQ(d.scheduler.ledger().held(), 3);
  EXPECT_EQ(d.plan(), Rows{});
  d.answer();
  EXPECT_EQ(d.scheduler.ledger().held(), 0);
  EXPECT_EQ(d.scheduler.ledger().cached(), 2) << "what was computed can serve others";
  d.scheduler.end(seq);
  EXPECT_TRUE(d.scheduler.idle());
}

TEST(Scheduler, APrefixIsReusedUpToTheLastTokenWhichIsComputed) {
  Driver d(config());
  d.add(64, 1, 7);
  d.finish();
  d.add(64, 1, 7);
  EXPECT_EQ(d.plan(), (Rows{{2, 16}})) << "block 4 holds the last token: its logits are wanted";
  EXPECT_EQ(d.scheduler.find(SeqId{2})->cached_tokens, 48);
  d.finish();
  d.add(65, 1, 7);
  EXPECT_EQ(d.plan(), (Rows{{3, 1}}));
}

TEST(Scheduler, BlocksAreSharedOnlyWhenTheirStepIsDone) {
  Driver d(config());
  d.add(112, 1, 7);
  std::vector<BlockHash> chain;
  for (uint8_t i = 0; i < 7; ++i) chain.push_back(BlockHash{{7, i}});
  d.plan();  // 64 rows
  d.plan();  // and the rest
  EXPECT_EQ(d.scheduler.cached_tokens(chain, 113), 0);
  d.answer();
  EXPECT_EQ(d.scheduler.cached_tokens(chain, 113), 64);
  d.answer();
  EXPECT_EQ(d.scheduler.cached_tokens(chain, 113), 112);
}

TEST(Scheduler, WhoSharesABlockInTheMakingWaitsForIt) {
  Driver d(config());
  d.add(100, 2, 7);
  d.add(100, 2, 7);
  d.add(20, 2, 8);
  EXPECT_EQ(d.plan(), (Rows{{1, 32}, {3, 20}})) << "buckets share the step; 2 waits for 1";
  d.answer();
  while (!d.plan().contains(2)) d.answer();
  EXPECT_EQ(d.firsts[2], 96) << "six shared blocks";
  EXPECT_GT(d.scheduler.counters().prefix_waits, 0u);
  d.finish();
}

TEST(Scheduler, AWaiterGoesOnByItselfWhenTheMakerIsCancelled) {
  Driver d(config());
  const SeqId maker = d.add(100, 2, 7);
  d.add(100, 2, 7);
  d.plan();
  d.scheduler.end(maker);
  EXPECT_EQ(d.plan(), (Rows{{2, 64}})) << "nothing was done yet: it starts from nothing";
  d.finish();
}

TEST(Scheduler, AHighPriorityRequestDoesNotWaitForALowOnesBlocks) {
  Driver d(config());
  d.add(200, 2, 7, Priority::kLow);
  d.plan();
  d.answer();
  d.add(200, 2, 7, Priority::kHigh);
  EXPECT_EQ(d.plan(), (Rows{{2, 64}}));
  EXPECT_EQ(d.firsts[2], 64) << "what the low one has sealed is shared all the same";
}

TEST(Scheduler, AFullPoolPreemptsTheLatestAndItResumesWithWhatIsLeft) {
  SchedulerConfig c = config();
  c.limits.kv_blocks = 9;
  Driver d(c);
  d.add(60, 70);  // grows from 4 to 9 blocks
  d.add(30, 60);
  const int steps = d.finish();
  EXPECT_GT(d.scheduler.counters().preemptions, 0u);
  EXPECT_EQ(d.scheduler.counters().preemptions, d.scheduler.counters().resumes);
  EXPECT_LT(steps, 150);
  EXPECT_EQ(d.scheduler.ledger().held(), 0);
}

TEST(Scheduler, LowPriorityIsPreemptedBeforeALaterNormalOne) {
  SchedulerConfig c = config();
  c.limits.kv_blocks = 6;
  Driver d(c);
  d.add(15, 50, 0, Priority::kLow);
  d.add(15, 50, 0, Priority::kNormal);
  while (d.scheduler.counters().preemptions == 0) {
    ASSERT_FALSE(d.plan().empty());
    d.answer();
  }
  EXPECT_EQ(d.scheduler.find(SeqId{1})->preemptions, 1);
  EXPECT_EQ(d.scheduler.find(SeqId{2})->preemptions, 0);
  d.finish();
}

TEST(Scheduler, ShortPromptsPassALongOneAndItGoesOnToo) {
  Driver d(config());
  d.add(400, 2);
  d.plan();
  d.answer();
  for (int i = 0; i < 4; ++i) d.add(16, 2);
  const Rows rows = d.plan();
  EXPECT_TRUE(rows.contains(2)) << "in another bucket than the long one";
  EXPECT_TRUE(rows.contains(1));
}

TEST(Scheduler, WhatIsTakenInAPlanDoesNotEvictWhatTheNextInLineMatches) {
  SchedulerConfig c = config();
  c.limits.kv_blocks = 10;
  c.limits.sequences_max = 1;
  Driver d(c);
  d.add(33, 1, 7);
  d.finish();  // leaves two cached blocks
  d.add(49, 1, 8);
  d.plan();
  const SeqId next = d.add(33, 1, 7);  // waits for the slot
  d.answer();  // leaves three cached blocks, used later than the two
  d.add(81, 1, 9, Priority::kHigh);    // goes first; takes six: five are free
  EXPECT_EQ(d.plan(), (Rows{{4, 64}}));
  while (d.scheduler.find(next)->state == SeqState::kWaiting) {
    d.answer();
    ASSERT_FALSE(d.plan().empty());
  }
  EXPECT_EQ(d.scheduler.find(next)->cached_tokens, 32);
  d.finish();
}

TEST(Scheduler, AnOldPromptGoesOnUnderAFlowOfHigherPriority) {
  SchedulerConfig c = config();
  c.age_bound = Duration::milliseconds(500);
  Driver d(c);
  const SeqId low = d.add(200, 1, 0, Priority::kLow);
  d.plan();
  d.answer();
  for (int step = 0; d.scheduler.find(low) != nullptr; ++step) {
    ASSERT_LT(step, 30) << "of 64 ms each; 500 ms is the age bound, 16 ms a step its share then";
    d.add(100, 1, 0, Priority::kHigh);  // more than a step can do
    ASSERT_FALSE(d.plan().empty());
    d.answer();
  }
}

TEST(Scheduler, AtMostSequencesMaxRunAtOnce) {
  SchedulerConfig c = config();
  c.limits.sequences_max = 2;
  Driver d(c);
  for (int i = 0; i < 5; ++i) d.add(4, 20);
  EXPECT_EQ(d.plan().size(), 2u);
  EXPECT_EQ(d.scheduler.running(), 2);
  EXPECT_EQ(d.scheduler.waiting(), 3);
  d.finish();
}

TEST(Scheduler, TheConfigSaysWhichFieldIsWrong) {
  SchedulerConfig c = config();
  c.limits.step_tokens_max = 4;
  EXPECT_EQ(validate(c).code(), StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(validate(c)).find("step_tokens_max"), std::string_view::npos);
  c = config();
  c.step_ms = 0.0;
  EXPECT_NE(message_of(validate(c)).find("step_ms"), std::string_view::npos);
  EXPECT_TRUE(validate(config()).ok());
}

}  // namespace
}  // namespace lineshaft::policy
