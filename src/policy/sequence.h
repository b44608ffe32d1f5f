// Sequence: one choice of a request as a policy sees it: counts, blocks, state. Holds no tokens
// and no pointers; only the scheduler changes it.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "core/block.h"
#include "core/ids.h"
#include "core/request.h"

namespace lineshaft::policy {

enum class SeqState : uint8_t {
  kWaiting,     // holds no blocks: new, or preempted
  kPrefilling,  // holds blocks for all known tokens; some of these are not computed
  kDecoding,    // all known tokens are computed or in flight
  kLeaving,     // preempted or ended, but a plan in flight still uses its blocks
};

// What the scheduler is told about a new sequence.
struct SeqSpec {
  SeqId seq;
  int32_t choice = 0;
  Priority priority = Priority::kNormal;
  Instant arrival;
  int32_t prompt_tokens = 0;      // >= 1
  int32_t length_max = 0;         // prompt + generated; > prompt_tokens
  std::vector<BlockHash> hashes;  // of the prompt's full blocks
};

struct Sequence {
  SeqId seq;
  int32_t choice = 0;
  Priority priority = Priority::kNormal;
  Instant arrival;
  int32_t length_max = 0;

  SeqState state = SeqState::kWaiting;
  bool ended = false;       // kLeaving: for good, else it waits again
  bool introduced = false;  // the worker knows it
  int32_t known = 0;        // tokens that exist
  int32_t pending = 0;      // tokens that plans in flight will sample
  int32_t planned = 0;      // positions whose KV is computed or in flight
  int32_t done = 0;         // positions whose KV is computed
  int32_t in_flight = 0;    // plans in flight that name it
  std::vector<BlockId> blocks;
  std::vector<BlockHash> hashes;  // of the full blocks of known tokens
  int32_t published = 0;    // leading blocks that are sealed
  int32_t probed = 0;       // leading blocks that were in the pool when last looked at
  int32_t bucket = 0;       // by its uncached work when it began to wait
  int32_t cached_tokens = -1;  // reused at its first start; -1 before
  int32_t preemptions = 0;

  // Length that it has when all plans in flight have answered and none has ended it.
  int32_t length_planned() const { return known + pending; }
  // Full blocks that may come from the pool: the last known token is always computed, since its
  // logits are wanted.
  int32_t reusable_blocks(int32_t block_tokens) const { return (known - 1) / block_tokens; }
};

// A sequence that has lost its blocks this often is not taken for a low one again.
constexpr int32_t kPreemptionsMax = 3;

// Who goes before whom: priority, then arrival. A total order.
inline auto rank(const Sequence& s) {
  const auto level = s.preemptions >= kPreemptionsMax ? Priority::kHigh : s.priority;
  return std::tuple(static_cast<int>(level), s.arrival.ns, s.seq.value);
}

}  // namespace lineshaft::policy
