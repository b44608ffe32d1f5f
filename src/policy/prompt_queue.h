// PromptQueue: the sequences of one priority that want prompt work in this step, in four length
// buckets, each in order of arrival. Filled anew for each plan; decides nothing by itself.
#pragma once

#include <array>
#include <vector>

#include "policy/fair_share.h"
#include "policy/sequence.h"

namespace lineshaft::policy {

constexpr int kPriorities = 3;

struct PromptQueue {
  std::array<std::vector<Sequence*>, kBuckets> sequences;
  std::array<size_t, kBuckets> next{};          // first that may still want rows
  std::array<bool, kBuckets> starts_closed{};   // one of this bucket found no room

  void clear() {
    for (auto& bucket : sequences) bucket.clear();
    next = {};
    starts_closed = {};
  }
  void push(Sequence* seq) { sequences[static_cast<size_t>(seq->bucket)].push_back(seq); }
  // The head of a bucket; nullptr when it has nobody left.
  Sequence* head(int bucket) {
    const size_t b = static_cast<size_t>(bucket);
    return next[b] < sequences[b].size() ? sequences[b][next[b]] : nullptr;
  }
  void pop(int bucket) { ++next[static_cast<size_t>(bucket)]; }
};

}  // namespace lineshaft::policy
