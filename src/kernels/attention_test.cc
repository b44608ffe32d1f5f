// What is at stake: a row's answer may not know which rows it was computed with, what lies in the
// slots behind it, or which instruction set did it; and it must be attention.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "kernels/ref/vector_ref.h"
#include "kernels/test_util.h"

namespace lineshaft::kernels {
namespace {

struct Case {
  AttentionShape shape;
  int32_t context;  // positions 0 .. context - 1
};

// A sequence of one layer: random q, k, v of every position, k and v stored in blocks that lie in
// reverse order in memory.
class World {
 public:
  World(const Case& c, uint64_t seed) : shape(c.shape), context(c.context), key_(seed) {
    const int64_t row = int64_t{shape.heads} * shape.head_dim;
    q = random_floats(key_.split(1), static_cast<size_t>(context * row), 2.0f);
    const int32_t count = (context + shape.block_tokens - 1) / shape.block_tokens;
    const int64_t stride = shape.layer_offset + kv_layer_bytes(shape);
    memory_.resize(static_cast<size_t>(count * stride), std::byte{0});
    for (int32_t b = 0; b < count; ++b) {
      blocks.push_back(memory_.data() + (count - 1 - b) * stride);
    }
    for (int32_t p = 0; p < context; ++p) write(p, 1.0f);
  }

  void write(int32_t position, float factor) {
    const auto n = static_cast<size_t>(shape.kv_heads) * static_cast<size_t>(shape.head_dim);
    const auto p = static_cast<uint64_t>(position);
    auto k = random_floats(key_.split(2).split(p), n, factor);
    auto v = random_floats(key_.split(3).split(p), n, factor);
    store(position, k, v);
  }

  void store(int32_t position, const std::vector<float>& k, const std::vector<float>& v) {
    std::byte* block = blocks[static_cast<size_t>(position / shape.block_tokens)];
    ref::store_kv(shape, block, position % shape.block_tokens, k.data(), v.data());
  }

  AttentionSequence sequence(int32_t first, int32_t rows, std::vector<float>* out) const {
    const int64_t row = int64_t{shape.heads} * shape.head_dim;
    out->assign(static_cast<size_t>(rows * row), -77.0f);
    return {.q = q.data() + first * row, .q_stride = row, .out = out->data(), .out_stride = row,
            .first = first, .rows = rows,
            .blocks = reinterpret_cast<const std::byte* const*>(blocks.data())};
  }

  // Rows [first, first + rows), the queries cut at the given indices.
  std::vector<float> run(Isa isa, int32_t first, int32_t rows,
                         const std::vector<int64_t>& cuts = {}) const {
    std::vector<float> out;
    const AttentionSequence s = sequence(first, rows, &out);
    int64_t begin = 0;
    for (const int64_t cut : cuts) {
      kernels_for(isa).attention(shape, s, {begin, cut}, scratch_.get());
      begin = cut;
    }
    kernels_for(isa).attention(shape, s, {begin, int64_t{rows} * shape.heads}, scratch_.get());
    return out;
  }

  std::vector<float> twin(int32_t first, int32_t rows) const {
    std::vector<float> out;
    ref::attention(shape, sequence(first, rows, &out));
    return out;
  }

  AttentionShape shape;
  int32_t context;
  std::vector<float> q;
  std::vector<std::byte*> blocks;

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  RngKey key_;
  std::vector<std::byte> memory_;
  std::unique_ptr<float, Free> scratch_{static_cast<float*>(std::aligned_alloc(64, 1 << 18))};
};

Case make_case(int32_t heads, int32_t kv_heads, int32_t head_dim, int32_t window, KvType type,
               int32_t block_tokens, int32_t context) {
  AttentionShape shape{.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim,
                       .block_tokens = block_tokens, .window = window};
  shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  shape.kv_type = type;
  shape.layer_offset = 64;
  return {shape, context};
}

// Shapes from a seed: groups 1 to 9, heads of 16 to 256, windows or none, all cache types.
std::vector<Case> random_cases(uint64_t seed, int count, int32_t context_max) {
  const std::vector<int32_t> head_dims = {64, 128, 256, 16, 80};
  const std::vector<int32_t> windows = {0, 0, 0, 1, 7, 64, 100, 512, 1500};
  const std::vector<int32_t> tokens = {128, 16, 48, 64};
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    const RngKey key = RngKey(seed).split(static_cast<uint64_t>(i));
    const auto kv_heads = static_cast<int32_t>(1 + key.below(0, 3));
    const auto group = static_cast<int32_t>(1 + key.below(1, 9));
    cases.push_back(make_case(kv_heads * group, kv_heads, head_dims[key.below(2, 5)],
                              windows[key.below(3, 9)],
                              kKvTypes[(static_cast<size_t>(i) + key.below(4, 2)) % 4],
                              tokens[key.below(5, 4)],
                              static_cast<int32_t>(1 + key.below(6, context_max))));
  }
  return cases;
}

std::string describe(const Case& c) {
  return fmt::format("heads {}/{} dim {} window {} {} block {} context {}", c.shape.heads,
                     c.shape.kv_heads, c.shape.head_dim, c.shape.window, name_of(c.shape.kv_type),
                     c.shape.block_tokens, c.context);
}

std::vector<double> exact_row(const World& w, int32_t position, int32_t head) {
  const AttentionShape& s = w.shape;
  const int32_t begin = s.window > 0 ? std::max(0, position + 1 - s.window) : 0;
  const int32_t h = head / (s.heads / s.kv_heads);
  const float* q = w.q.data() + (int64_t{position} * s.heads + head) * s.head_dim;
  std::vector<double> scores, out(static_cast<size_t>(s.head_dim), 0.0);
  for (int32_t p = begin; p <= position; ++p) {
    const std::byte* block = w.blocks[static_cast<size_t>(p / s.block_tokens)];
    double dot = 0.0;
    for (int32_t d = 0; d < s.head_dim; ++d) {
      dot += double{q[d]} * ref::stored_key(s, block, p % s.block_tokens, h, d);
    }
    scores.push_back(dot * s.scale);
  }
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0.0;
  for (int32_t p = begin; p <= position; ++p) {
    const std::byte* block = w.blocks[static_cast<size_t>(p / s.block_tokens)];
    const double weight = std::exp(scores[static_cast<size_t>(p - begin)] - highest);
    total += weight;
    for (int32_t d = 0; d < s.head_dim; ++d) {
      out[static_cast<size_t>(d)] +=
          weight * ref::stored_value(s, block, p % s.block_tokens, h, d);
    }
  }
  for (double& v : out) v /= total;
  return out;
}

TEST(Attention, IsTheDefinitionToSinglePrecision) {
  for (const Case& c : random_cases(1, 12, 2500)) {
    const World w(c, 5);
    const std::vector<float> out = w.run(best_isa(), c.context - 1, 1);
    for (int32_t head = 0; head < c.shape.heads; ++head) {
      const std::vector<double> exact = exact_row(w, c.context - 1, head);
      for (int32_t d = 0; d < c.shape.head_dim; ++d) {
        ASSERT_NEAR(out[static_cast<size_t>(head * c.shape.head_dim + d)],
                    exact[static_cast<size_t>(d)], 3e-6)
            << describe(c) << " head " << head << " d " << d;
      }
    }
  }
}

TEST(Attention, EqualsItsTwinOnEveryInstructionSet) {
  for (const Case& c : random_cases(2, 24, 3000)) {
    const World w(c, 6);
    const int32_t rows = std::min(c.context, 9);
    const std::vector<float> twin = w.twin(c.context - rows, rows);
    for (const Isa isa : machine_isas()) {
      ASSERT_TRUE(same_bits(w.run(isa, c.context - rows, rows), twin))
          << describe(c) << " " << name_of(isa);
    }
  }
}

TEST(Attention, RowsAloneAreRowsTogetherAreRowsInAnyCut) {
  for (const Isa isa : machine_isas()) {
    const bool slow = isa == Isa::kScalar;
    for (const Case& c : random_cases(3, slow ? 8 : 40, slow ? 150 : 700)) {
      const World w(c, 7);
      const std::vector<float> all = w.run(isa, 0, c.context);
      const RngKey key(static_cast<uint64_t>(c.context));
      const size_t row = static_cast<size_t>(c.shape.heads) * c.shape.head_dim;
      std::vector<float> chunked;
      for (int32_t first = 0; first < c.context;) {
        const auto left = static_cast<uint64_t>(c.context - first);
        const auto rows =
            static_cast<int32_t>(1 + key.below(static_cast<uint64_t>(first), std::min<uint64_t>(
                                                                                left, 90)));
        std::vector<int64_t> cuts;
        for (int64_t cut = 0; cut < int64_t{rows} * c.shape.heads;) {
          cut += static_cast<int64_t>(1 + key.below(static_cast<uint64_t>(cut), 40));
          if (cut < int64_t{rows} * c.shape.heads) cuts.push_back(cut);
        }
        const std::vector<float> part = w.run(isa, first, rows, cuts);
        chunked.insert(chunked.end(), part.begin(), part.end());
        first += rows;
      }
      ASSERT_TRUE(same_bits(chunked, all)) << describe(c) << " " << name_of(isa);
      for (int trial = 0; trial < 5; ++trial) {
        const auto position = static_cast<int32_t>(
            key.below(1000 + static_cast<uint64_t>(trial), static_cast<uint64_t>(c.context)));
        const std::vector<float> alone = w.run(isa, position, 1);
        ASSERT_EQ(std::memcmp(alone.data(), all.data() + static_cast<size_t>(position) * row,
                              row * sizeof(float)),
                  0)
            << describe(c) << " " << name_of(isa) << " position " << position;
      }
    }
  }
}

TEST(Attention, WhatLiesBehindARowOrBeforeItsWindowHasNoInfluence) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : machine_isas()) {
    const bool slow = isa == Isa::kScalar;
    for (const Case& c : random_cases(4, slow ? 8 : 40, slow ? 200 : 1500)) {
      World w(c, 8);
      const int32_t rows = std::min(5, c.context);
      const int32_t first = (c.context - rows) / 2;
      const std::vector<float> before = w.run(isa, first, rows);
      const auto n = static_cast<size_t>(c.shape.kv_heads) * c.shape.head_dim;
      for (const float garbage : {nan, inf, -inf, 60000.0f, -60000.0f, 0.0f, -0.0f}) {
        const std::vector<float> fill(n, garbage);
        const int32_t slots = static_cast<int32_t>(w.blocks.size()) * c.shape.block_tokens;
        for (int32_t p = first + rows; p < slots; ++p) w.store(p, fill, fill);
        if (c.shape.window > 0) {
          for (int32_t p = 0; p <= first - c.shape.window; ++p) w.store(p, fill, fill);
        }
        ASSERT_TRUE(same_bits(w.run(isa, first, rows), before))
            << describe(c) << " " << name_of(isa) << " " << garbage;
      }
    }
  }
}

TEST(Attention, BlocksBeforeTheWindowAreNotTouched) {
  // No such block is there: reading one would end the program.
  for (const Isa isa : machine_isas()) {
    for (const KvType type : kKvTypes) {
      for (const int32_t window : {1, 64, 100, 512}) {
        World w(make_case(6, 2, 64, window, type, 16, 1400), 13);
        const std::vector<float> before = w.run(isa, 1390, 10);
        const int32_t first = 1391 - window;
        std::fill(w.blocks.begin(), w.blocks.begin() + first / 16, nullptr);
        ASSERT_TRUE(same_bits(w.run(isa, 1390, 10), before)) << name_of(isa) << " " << window;
      }
    }
  }
}

TEST(Attention, LaterRowsOfTheSameCallHaveNoInfluence) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : machine_isas()) {
    for (const int32_t window : {0, 3, 40}) {
      const KvType type = kKvTypes[(window + static_cast<int32_t>(isa)) % 4];
      const Case c = make_case(3, 1, 64, window, type, 128, 130);
      World w(c, 9);
      const std::vector<float> clean = w.run(isa, 100, 30);
      const std::vector<float> fill(64, nan);
      for (int32_t p = 115; p < 130; ++p) w.store(p, fill, fill);
      const std::vector<float> mixed = w.run(isa, 100, 30);
      const size_t row = 3 * 64;
      ASSERT_EQ(std::memcmp(mixed.data(), clean.data(), 15 * row * sizeof(float)), 0) << window;
      ASSERT_TRUE(std::isnan(mixed[15 * row])) << "the row that reads NaN must show it";
    }
  }
}

// Sequences of one row each over the first `shared` positions of one world, each with blocks of its
// own behind (copies of another world's), as the planner groups them; against each alone.
void check_shared(const Case& c, int32_t shared, int count, uint64_t seed) {
  const World base(c, seed);
  const AttentionShape& shape = c.shape;
  const auto row = static_cast<size_t>(shape.heads) * shape.head_dim;
  const int32_t blocks_shared = (shared + shape.block_tokens - 1) / shape.block_tokens;
  const RngKey key(seed);
  std::vector<int32_t> firsts;
  for (int i = 0; i < count; ++i) {
    const auto free = static_cast<uint64_t>(c.context - blocks_shared * shape.block_tokens);
    firsts.push_back(blocks_shared * shape.block_tokens +
                     static_cast<int32_t>(key.below(static_cast<uint64_t>(i), free)));
  }
  std::ranges::sort(firsts);
  std::vector<std::unique_ptr<World>> worlds;
  std::vector<std::vector<float>> outs(static_cast<size_t>(count)), alone;
  std::vector<AttentionSequence> sequences;
  for (int i = 0; i < count; ++i) {
    worlds.push_back(std::make_unique<World>(c, seed + 1 + static_cast<uint64_t>(i)));
    World& world = *worlds.back();
    std::copy_n(base.blocks.begin(), blocks_shared, world.blocks.begin());
    sequences.push_back(world.sequence(firsts[static_cast<size_t>(i)], 1,
                                       &outs[static_cast<size_t>(i)]));
  }
  const int64_t queries = int64_t{shape.heads} / shape.kv_heads * count;
  for (const Isa isa : machine_isas()) {
    alignas(64) static float scratch[1 << 15];
    for (auto& out : outs) std::ranges::fill(out, -77.0f);
    for (int32_t h = 0; h < shape.kv_heads; ++h) {
      const auto cut = static_cast<int64_t>(key.below(99, static_cast<uint64_t>(queries)));
      kernels_for(isa).attention_shared(shape, sequences.data(), shared, h, {0, cut}, scratch);
      kernels_for(isa).attention_shared(shape, sequences.data(), shared, h, {cut, queries},
                                        scratch);
    }
    for (int i = 0; i < count; ++i) {
      const auto want = worlds[static_cast<size_t>(i)]->run(isa, firsts[static_cast<size_t>(i)], 1);
      ASSERT_EQ(std::memcmp(outs[static_cast<size_t>(i)].data(), want.data(), row * sizeof(float)),
                0)
          << describe(c) << " " << name_of(isa) << " shared " << shared << " sequence " << i;
    }
  }
}

TEST(Attention, SequencesWithASharedBeginningAreEachAsAlone) {
  const std::vector<Case> cases = random_cases(5, 24, 500);
  for (size_t i = 0; i < cases.size(); ++i) {
    Case c = cases[i];
    const RngKey key = RngKey(77).split(i);
    const auto shared = static_cast<int32_t>(64 * (1 + key.below(0, i % 8 == 0 ? 34 : 12)));
    c.context += shared + 2 * c.shape.block_tokens;
    check_shared(c, shared, static_cast<int>(1 + key.below(1, 9)), 100 + 50 * i);
  }
}

TEST(Attention, NegativeZeroSurvives) {
  // One position, weight 1: the chain is fma(1, v, +0), so v = -0 gives +0, on every path the same.
  for (const Isa isa : machine_isas()) {
    const Case c = make_case(2, 1, 16, 1, KvType::kF32, 16, 20);
    World w(c, 10);
    const std::vector<float> zero(16, -0.0f);
    for (int32_t p = 0; p < 20; ++p) w.store(p, zero, zero);
    ASSERT_TRUE(same_bits(w.run(isa, 0, 20), w.twin(0, 20)));
  }
}

TEST(Attention, ASegmentBehindARowDoesNotTouchTheSignOfItsZero) {
  // The second segment's sum, the smallest denormal, underflows to -0 when it is merged. Rows 2,038
  // to 2,047 end there, their neighbours in the call go on into the third segment: merging an empty
  // one would add +0 and lose the sign.
  for (const Isa isa : machine_isas()) {
    const Case c = make_case(2, 1, 16, 0, KvType::kF32, 128, 2058);
    World w(c, 12);
    std::fill(w.q.begin(), w.q.end(), 1.0f);
    const std::vector<float> zeros(16, 0.0f), ones(16, 1.0f), tiny(16, -1e-45f);
    for (int32_t p = 0; p < 2058; ++p) w.store(p, p == 0 ? ones : zeros, p == 1500 ? tiny : zeros);
    const std::vector<float> together = w.run(isa, 2038, 20);
    ASSERT_TRUE(std::signbit(together[0]));
    ASSERT_TRUE(same_bits(together, w.twin(2038, 20)));
  }
}

TEST(Attention, ScoresThatOverflowTheExponentialStayFinite) {
  for (const Isa isa : machine_isas()) {
    const Case c = make_case(4, 2, 64, 0, KvType::kF32, 128, 300);
    World w(c, 11);
    for (int32_t p = 0; p < 300; ++p) w.write(p, p % 3 == 0 ? 1e4f : 1e-3f);
    const std::vector<float> out = w.run(isa, 290, 10);
    for (const float v : out) ASSERT_TRUE(std::isfinite(v));
    ASSERT_TRUE(same_bits(out, w.twin(290, 10)));
  }
}

}  // namespace
}  // namespace lineshaft::kernels
