// At stake: an answer that ends a token early or late, or never.
#include "worker/seq_runtime.h"

#include <gtest/gtest.h>

namespace lineshaft::worker {
namespace {

Vocab vocab_with_ends(std::vector<TokenId> ends) {
  Vocab vocab;
  vocab.end_of_generation = std::move(ends);
  return vocab;
}

SeqRuntime sequence(std::vector<TokenId> prompt, SamplingParams params, int32_t context = 100,
                    int32_t original = 0) {
  auto request = std::make_shared<Request>();
  request->prompt = std::move(prompt);
  request->original_prompt_tokens = original;
  request->sampling = std::move(params);
  return SeqRuntime({SeqId{1}, 0, std::move(request)}, context);
}

SamplingParams up_to(int32_t max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return params;
}

TEST(SeqRuntime, EndsWithTheLastOfMaxTokens) {
  const Vocab vocab = vocab_with_ends({});
  auto seq = sequence({1, 2}, up_to(3));
  EXPECT_EQ(seq.accept(5, vocab), std::nullopt);
  EXPECT_EQ(seq.accept(6, vocab), std::nullopt);
  EXPECT_FALSE(seq.ended());
  EXPECT_EQ(seq.accept(7, vocab), FinishReason::kLength);
  EXPECT_TRUE(seq.ended());
  EXPECT_EQ(std::vector<TokenId>(seq.tokens().begin(), seq.tokens().end()),
            (std::vector<TokenId>{1, 2, 5, 6, 7}));
}

TEST(SeqRuntime, EndsWhereTheContextIsFull) {
  const Vocab vocab = vocab_with_ends({});
  auto seq = sequence({1, 2}, up_to(50), 4);
  EXPECT_EQ(seq.accept(5, vocab), std::nullopt);
  EXPECT_EQ(seq.accept(6, vocab), FinishReason::kLength);
  EXPECT_EQ(seq.size(), 4);
}

TEST(SeqRuntime, StopTokensEndAndAreNotPartOfTheAnswer) {
  const Vocab vocab = vocab_with_ends({8, 20});
  for (const TokenId end : {8, 20, 30}) {
    SamplingParams params = up_to(5);
    params.stop_tokens = {30, 31};
    auto seq = sequence({1}, params);
    EXPECT_EQ(seq.accept(9, vocab), std::nullopt);
    EXPECT_EQ(seq.accept(end, vocab), FinishReason::kStop);
    EXPECT_EQ(seq.size(), 2);
    EXPECT_TRUE(seq.ended());
  }
}

TEST(SeqRuntime, StopTokenAsTheLastOfMaxTokensIsAStop) {
  auto seq = sequence({1}, up_to(1));
  EXPECT_EQ(seq.accept(8, vocab_with_ends({8})), FinishReason::kStop);
}

TEST(SeqRuntime, IgnoreEosSparesOnlyTheVocabularysEnds) {
  const Vocab vocab = vocab_with_ends({8});
  SamplingParams params = up_to(5);
  params.ignore_eos = true;
  params.stop_tokens = {30};
  auto seq = sequence({1}, params);
  EXPECT_EQ(seq.accept(8, vocab), std::nullopt);
  EXPECT_EQ(seq.tokens().back(), 8);
  EXPECT_EQ(seq.accept(30, vocab), FinishReason::kStop);
}

TEST(SeqRuntime, CountsForPenaltiesFollowTheAnswer) {
  const Vocab vocab = vocab_with_ends({});
  SamplingParams params = up_to(9);
  params.frequency_penalty = 0.5f;
  auto seq = sequence({4, 4, 2}, params);
  for (const TokenId t : {7, 4, 7}) seq.accept(t, vocab);
  const auto entries = seq.counts().entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].token, 2);
  EXPECT_EQ(entries[0].answered, 0);
  EXPECT_EQ(entries[1].token, 4);
  EXPECT_EQ(entries[1].answered, 1);
  EXPECT_EQ(entries[2].token, 7);
  EXPECT_EQ(entries[2].answered, 2);
}

TEST(SeqRuntime, ARetrysPromptCountsItsGeneratedTokens) {
  // Prompt of 2, of which 2 more were generated before the retry: two of four are left.
  const Vocab vocab = vocab_with_ends({});
  SamplingParams params = up_to(4);
  params.presence_penalty = 1.0f;
  auto seq = sequence({1, 2, 9, 9}, params, 100, 2);
  EXPECT_EQ(seq.counts().entries()[2].token, 9);
  EXPECT_EQ(seq.counts().entries()[2].answered, 2);
  EXPECT_EQ(seq.accept(5, vocab), std::nullopt);
  EXPECT_EQ(seq.accept(5, vocab), FinishReason::kLength);
}

}  // namespace
}  // namespace lineshaft::worker
