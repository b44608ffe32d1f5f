// PlanDriver: a scheduler by hand: a test says which sequence computes how many rows, and gets
// StepPlans with block tables. Knows counts only, so it can plan ahead of results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/step_plan.h"

namespace lineshaft::testing {

class PlanDriver {
 public:
  PlanDriver(int32_t block_tokens, int32_t kv_blocks) : block_tokens_(block_tokens) {
    for (int32_t i = 0; i < kv_blocks; ++i) free_.push_back({i});
  }

  // A new sequence, started by the next plan.
  SeqId add(std::shared_ptr<const Request> request, int32_t choice = 0) {
    const SeqId id{next_seq_++};
    seqs_[id.value].size = static_cast<int32_t>(request->prompt.size());
    plan_.starts.push_back({id, choice, std::move(request)});
    return id;
  }

  // A prefix hit: `to`, which has computed nothing, begins with `blocks` blocks of `from`.
  void share_prefix(SeqId from, SeqId to, int32_t blocks) {
    Seq& seq = seqs_.at(to.value);
    const auto& table = seqs_.at(from.value).blocks;
    LS_CHECK(seq.computed == 0 && seq.blocks.empty());
    seq.blocks.assign(table.begin(), table.begin() + blocks);
    seq.shared = blocks;
    seq.computed = blocks * block_tokens_;
  }

  // Loses its blocks; the next work recomputes from the start, in others.
  void preempt(SeqId id) {
    Seq& seq = seqs_.at(id.value);
    free_.insert(free_.end(), seq.blocks.begin() + seq.shared, seq.blocks.end());
    seq.blocks.clear();
    seq.shared = 0;
    seq.computed = 0;
  }

  // Adds work: up to `count` further positions. Samples when they reach the last known one. Once
  // for a sequence and plan.
  void work(SeqId id, int32_t count) {
    Seq& seq = seqs_.at(id.value);
    count = std::min(count, seq.size - seq.computed);
    LS_CHECK(count >= 1);
    SeqWork work;
    work.seq = id;
    work.first = seq.computed;
    work.count = count;
    seq.computed += count;
    while (static_cast<int32_t>(seq.blocks.size()) * block_tokens_ < seq.computed) {
      LS_CHECK(!free_.empty());
      seq.blocks.push_back(free_.front());
      free_.pop_front();
    }
    work.sample = seq.computed == seq.size;
    if (work.sample) ++seq.size;
    work.blocks_begin = static_cast<int32_t>(plan_.blocks.size());
    work.blocks_count = static_cast<int32_t>(seq.blocks.size());
    plan_.blocks.insert(plan_.blocks.end(), seq.blocks.begin(), seq.blocks.end());
    plan_.work.push_back(work);
    plan_.row_count += count;
  }

  void end(SeqId id) {
    preempt(id);
    seqs_.erase(id.value);
    plan_.ends.push_back(id);
  }

  // Positions not yet planned; 1 for a sequence that decodes.
  int32_t missing(SeqId id) const {
    const Seq& seq = seqs_.at(id.value);
    return seq.size - seq.computed;
  }

  // The plan so far; the next one begins empty.
  StepPlan take() {
    StepPlan out = std::exchange(plan_, {});
    out.step = StepId{next_step_++};
    return out;
  }

 private:
  struct Seq {
    int32_t size = 0;        // tokens, those that plans without an answer will sample too
    int32_t computed = 0;    // positions in KV once all plans are done
    int32_t shared = 0;      // leading blocks that belong to another sequence
    std::vector<BlockId> blocks;
  };

  const int32_t block_tokens_;
  std::deque<BlockId> free_;   // first in, first out: a resumed sequence meets other blocks
  std::map<uint64_t, Seq> seqs_;
  StepPlan plan_;
  uint64_t next_seq_ = 1;
  uint64_t next_step_ = 1;
};

}  // namespace lineshaft::testing
