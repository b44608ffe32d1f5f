// What is at stake: a block handed out while somebody reads it is a wrong answer for both; a block
// that is lost is memory that never comes back. The pool is compared with a naive model.
#include "policy/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"

namespace lineshaft::policy {
namespace {

BlockHash hash_of(uint32_t n) {
  BlockHash hash;
  for (int i = 0; i < 4; ++i) hash.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(n >> 8 * i);
  return hash;
}

TEST(BlockPool, HandsOutEachBlockOnceAndThenNone) {
  BlockPool pool(3);
  std::vector<int32_t> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.take()->value);
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(blocks, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.take().has_value());
}

TEST(BlockPool, AReleasedSealedBlockIsFoundAndAnUnsealedOneIsNot) {
  BlockPool pool(4);
  const std::vector<BlockHash> chain = {hash_of(1), hash_of(2)};
  const std::vector<BlockId> blocks = {*pool.take(), *pool.take()};
  pool.publish(blocks[0], chain[0]);
  pool.release(blocks);
  EXPECT_EQ(pool.match(chain).blocks, 1);
  EXPECT_EQ(pool.ledger().cached(), 1);
  EXPECT_EQ(pool.ledger().free(), 3);
  EXPECT_EQ(pool.share(chain), std::vector<BlockId>{blocks[0]});
  EXPECT_EQ(pool.ledger().held(), 1);
}

TEST(BlockPool, AGapInTheChainEndsTheMatch) {
  BlockPool pool(4);
  const std::vector<BlockHash> chain = {hash_of(1), hash_of(2), hash_of(3)};
  const BlockId first = *pool.take();
  const BlockId third = *pool.take();
  pool.publish(first, chain[0]);
  pool.publish(third, chain[2]);
  EXPECT_EQ(pool.match(chain).blocks, 1);
}

TEST(BlockPool, TheEndOfAChainIsEvictedBeforeItsBeginning) {
  BlockPool pool(3);
  const std::vector<BlockHash> chain = {hash_of(1), hash_of(2), hash_of(3)};
  std::vector<BlockId> blocks;
  for (const BlockHash& hash : chain) {
    blocks.push_back(*pool.take());
    pool.publish(blocks.back(), hash);
  }
  pool.release(blocks);
  for (int32_t left = 2; left >= 0; --left) {
    EXPECT_TRUE(pool.take().has_value());
    EXPECT_EQ(pool.match(chain).blocks, left);
  }
}

TEST(BlockPool, WhatWasTouchedOutlivesWhatWasNot) {
  BlockPool pool(2);
  const std::vector<BlockHash> old_chain = {hash_of(1)};
  const std::vector<BlockHash> new_chain = {hash_of(2)};
  for (const auto* chain : {&old_chain, &new_chain}) {
    const std::vector<BlockId> blocks = {*pool.take()};
    pool.publish(blocks[0], chain->front());
    pool.release(blocks);
  }
  pool.touch(old_chain);
  ASSERT_TRUE(pool.take().has_value());
  EXPECT_EQ(pool.match(old_chain).blocks, 1);
  EXPECT_EQ(pool.match(new_chain).blocks, 0);
}

TEST(BlockPool, EqualContentTwiceKeepsTheFirstName) {
  BlockPool pool(2);
  const std::vector<BlockHash> chain = {hash_of(1)};
  const BlockId first = *pool.take();
  const BlockId second = *pool.take();
  pool.publish(first, chain[0]);
  pool.publish(second, chain[0]);
  pool.release(std::vector<BlockId>{second});
  EXPECT_EQ(pool.ledger().free(), 1);
  EXPECT_EQ(pool.share(chain), std::vector<BlockId>{first});
}

// Blocks as a list of records, searched from end to end each time.
class NaivePool {
 public:
  explicit NaivePool(int32_t blocks) : records_(static_cast<size_t>(blocks)) {}

  void taken(BlockId block) {
    Record& r = records_[static_cast<size_t>(block.value)];
    ASSERT_EQ(r.holders, 0) << "a held block was handed out";
    if (r.name) {
      for (const Record& other : records_) {
        ASSERT_FALSE(other.holders == 0 && !other.name) << "evicted while a block was free";
        if (other.holders == 0 && other.name) {
          ASSERT_GE(other.used, r.used) << "not the least recently used";
        }
      }
    }
    r = Record{};
    r.holders = 1;
  }
  bool full() const {
    return std::all_of(records_.begin(), records_.end(),
                       [](const Record& r) { return r.holders > 0; });
  }
  std::optional<BlockId> find(uint32_t name) const {
    for (size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].name == name) return BlockId{static_cast<int32_t>(i)};
    }
    return std::nullopt;
  }
  void hold(BlockId block) { ++records_[static_cast<size_t>(block.value)].holders; }
  void name(BlockId block, uint32_t name) {
    if (!find(name)) records_[static_cast<size_t>(block.value)].name = name;
  }
  void release(BlockId block) {
    Record& r = records_[static_cast<size_t>(block.value)];
    if (--r.holders == 0) r.used = ++time_;
  }
  int32_t count(bool held, bool named) const {
    return static_cast<int32_t>(
        std::count_if(records_.begin(), records_.end(), [&](const Record& r) {
          return (r.holders > 0) == held && (held || r.name.has_value() == named);
        }));
  }

 private:
  struct Record {
    int32_t holders = 0;
    std::optional<uint32_t> name;
    uint64_t used = 0;
  };
  std::vector<Record> records_;
  uint64_t time_ = 0;
};

TEST(BlockPool, DoesWhatANaivePoolDoes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RngKey key(seed);
    const auto size = static_cast<int32_t>(1 + key.below(0, 12));
    BlockPool pool(size);
    NaivePool naive(size);
    std::vector<BlockId> holds;        // one entry a holder
    std::vector<BlockId> nameless;     // held blocks that may still be named
    for (uint64_t i = 1; i <= 2000; ++i) {
      const auto name = static_cast<uint32_t>(key.split(1).below(i, 20));
      const uint64_t action = key.split(2).below(i, 4);
      if (action == 0) {
        const auto block = pool.take();
        ASSERT_EQ(block.has_value(), !naive.full());
        if (!block) continue;
        ASSERT_NO_FATAL_FAILURE(naive.taken(*block));
        holds.push_back(*block);
        nameless.push_back(*block);
      } else if (action == 1) {
        const auto shared = pool.share(std::vector<BlockHash>{hash_of(name)});
        const auto found = naive.find(name);
        ASSERT_EQ(shared.size(), found ? 1u : 0u);
        if (!found) continue;
        ASSERT_EQ(shared[0], *found);
        naive.hold(*found);
        holds.push_back(*found);
      } else if (action == 2 && !nameless.empty()) {
        const size_t pick = key.split(3).below(i, nameless.size());
        pool.publish(nameless[pick], hash_of(name));
        naive.name(nameless[pick], name);
        nameless.erase(nameless.begin() + static_cast<int64_t>(pick));
      } else if (action == 3 && !holds.empty()) {
        const size_t pick = key.split(4).below(i, holds.size());
        const BlockId block = holds[pick];
        holds.erase(holds.begin() + static_cast<int64_t>(pick));
        pool.release(std::vector<BlockId>{block});
        naive.release(block);
        if (std::find(holds.begin(), holds.end(), block) == holds.end()) {
          std::erase(nameless, block);
        }
      }
      pool.audit();
      ASSERT_EQ(pool.ledger().held(), naive.count(true, false));
      ASSERT_EQ(pool.ledger().cached(), naive.count(false, true));
      ASSERT_EQ(pool.ledger().free(), naive.count(false, false));
    }
  }
}

TEST(BlockLedgerDeathTest, AMistakeOfOursEndsTheProcess) {
  BlockLedger ledger(1);
  EXPECT_DEATH(ledger.release(BlockId{0}), "has no holder");
  EXPECT_DEATH(ledger.hold(BlockId{0}), "is free");
  EXPECT_DEATH(ledger.hold(BlockId{1}), "no block 1");
}

}  // namespace
}  // namespace lineshaft::policy
