// What is at stake: every head of every row is computed once, and common beginnings are found.
#include "model/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace lineshaft::model {
namespace {

constexpr int32_t kBlockTokens = 32;

ModelSpec spec_of(int32_t heads, int32_t kv_heads) {
  ModelSpec spec;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.head_dim = 16;
  return spec;
}

struct Step {
  ForwardBatch batch;
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 16);  // a byte a block

  // A sequence whose table starts with `shared` blocks named by `stem`, then blocks of its own.
  void add(int32_t first, int32_t rows, int32_t shared, int32_t stem) {
    ForwardSequence s;
    s.first_row = static_cast<int32_t>(batch.tokens.size());
    s.rows = rows;
    s.first_position = first;
    s.blocks_begin = static_cast<int32_t>(batch.blocks.size());
    batch.tokens.resize(batch.tokens.size() + static_cast<size_t>(rows));
    const auto index = static_cast<int32_t>(batch.sequences.size());
    for (int32_t b = 0; b <= (first + rows - 1) / kBlockTokens; ++b) {
      const int32_t name = b < shared ? stem * 100 + b : 1000 + index * 100 + b;
      batch.blocks.push_back(memory.data() + name);
    }
    batch.sequences.push_back(s);
  }
};

// How often each (row, head) is computed.
std::vector<int> times_computed(const AttentionPlan& plan, const Step& step,
                                const ModelSpec& spec) {
  std::vector<int> times(step.batch.tokens.size() * static_cast<size_t>(spec.heads));
  const int64_t group = spec.heads / spec.kv_heads;
  for (const AttentionChunk& chunk : plan.chunks()) {
    for (int64_t i = chunk.queries.begin; i < chunk.queries.end; ++i) {
      const int64_t rows = plan.sequence(chunk.sequence).rows;
      const bool alone = chunk.shared == 0;
      const auto s = static_cast<int32_t>(alone ? 0 : i / group);
      const int64_t row = plan.first_row(chunk.sequence + s) + (alone ? i / group % rows : 0);
      const int64_t kv_head = alone ? i / group / rows : chunk.kv_head;
      ++times[static_cast<size_t>(row * spec.heads + kv_head * group + i % group)];
    }
  }
  return times;
}

TEST(AttentionPlan, EveryHeadOfEveryRowIsComputedOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const RngKey key(seed);
    const auto kv_heads = static_cast<int32_t>(1 + key.below(0, 3));
    const ModelSpec spec = spec_of(kv_heads * static_cast<int32_t>(1 + key.below(1, 9)), kv_heads);
    Step step;
    const uint64_t count = 1 + key.below(2, 20);
    for (uint64_t i = 0; i < count; ++i) {
      const RngKey k = key.split(i);
      const auto rows = static_cast<int32_t>(k.below(0, 3) == 0 ? 1 + k.below(1, 40) : 1);
      step.add(static_cast<int32_t>(k.below(2, 900)), rows, static_cast<int32_t>(k.below(3, 20)),
               static_cast<int32_t>(k.below(4, 2)));
    }
    AttentionPlan plan(spec, kBlockTokens, 1024, static_cast<int>(1 + key.below(3, 4)));
    plan.plan(step.batch, {}, {});
    const std::vector<int> times = times_computed(plan, step, spec);
    EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << seed;
    for (const AttentionChunk& chunk : plan.chunks()) {
      if (chunk.shared == 0) continue;
      const int64_t last = (chunk.queries.end - 1) / (spec.heads / spec.kv_heads);
      for (int32_t s = 0; s <= last; ++s) {
        const auto& sequence = plan.sequence(chunk.sequence + s);
        EXPECT_LE(chunk.shared, sequence.first);
        for (int32_t b = 0; b * kBlockTokens < chunk.shared; ++b) {
          EXPECT_EQ(sequence.blocks[b], plan.sequence(chunk.sequence).blocks[b]);
        }
      }
    }
  }
}

TEST(AttentionPlan, FindsTheCommonBeginningOfSequencesApartInTheBatch) {
  const ModelSpec spec = spec_of(6, 2);
  Step step;
  step.add(700, 1, 20, 0);
  step.add(650, 1, 0, 0);   // shares nothing
  step.add(640, 1, 18, 0);  // 576 positions
  step.add(650, 1, 20, 1);  // another prompt
  step.add(660, 1, 19, 0);  // 608 positions
  AttentionPlan plan(spec, kBlockTokens, 64, 2);
  plan.plan(step.batch, {}, {});
  int shared_chunks = 0;
  for (const AttentionChunk& chunk : plan.chunks()) {
    if (chunk.shared == 0) continue;
    ++shared_chunks;
    EXPECT_EQ(chunk.shared, 576);
    EXPECT_EQ(chunk.queries.size(), 9);
    EXPECT_EQ(plan.sequence(chunk.sequence).first, 640);
    EXPECT_EQ(plan.sequence(chunk.sequence + 2).first, 700);
  }
  EXPECT_EQ(shared_chunks, 2);
}

}  // namespace
}  // namespace lineshaft::model
