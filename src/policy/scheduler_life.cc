// The life of sequences: waiting, starting with what the pool knows, sealing blocks, leaving.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "policy/scheduler.h"

namespace lineshaft::policy {

Sequence& Scheduler::get(SeqId seq) {
  const auto it = sequences_.find(seq);
  LS_CHECK(it != sequences_.end(), "no sequence {}", seq.value);
  return it->second;
}

const Sequence* Scheduler::find(SeqId seq) const {
  const auto it = sequences_.find(seq);
  return it == sequences_.end() ? nullptr : &it->second;
}

void Scheduler::add(SeqSpec spec) {
  LS_CHECK(spec.seq > last_seq_, "sequence {} after {}", spec.seq.value, last_seq_.value);
  LS_CHECK(spec.prompt_tokens >= 1 && spec.length_max > spec.prompt_tokens);
  LS_CHECK(spec.length_max <= config_.limits.context_tokens);
  LS_CHECK(blocks_for(spec.length_max - 1) <= config_.limits.kv_blocks);
  LS_CHECK(static_cast<int32_t>(spec.hashes.size()) ==
           spec.prompt_tokens / config_.limits.block_tokens);
  last_seq_ = spec.seq;
  Sequence seq;
  seq.seq = spec.seq;
  seq.choice = spec.choice;
  seq.priority = spec.priority;
  seq.arrival = spec.arrival;
  seq.length_max = spec.length_max;
  seq.known = spec.prompt_tokens;
  seq.hashes = std::move(spec.hashes);
  seq.hashes.reserve(static_cast<size_t>(blocks_for(spec.length_max)));  // all it will have
  wait(sequences_.emplace(spec.seq, std::move(seq)).first->second);
}

// The part of its chain of hashes that `seq` may take from the pool.
static std::span<const BlockHash> reusable(const Sequence& seq, int32_t block_tokens) {
  return std::span(seq.hashes).first(static_cast<size_t>(seq.reusable_blocks(block_tokens)));
}

double Scheduler::uncached_ms(const Sequence& seq) const {
  const int32_t first = seq.probed * config_.limits.block_tokens;
  return cost_.chunk_ms(first, seq.known - first, true);
}

// What waits is looked up at once: its bucket counts uncached work only, and its prefix becomes
// the last to be evicted.
void Scheduler::wait(Sequence& seq) {
  seq.state = SeqState::kWaiting;
  seq.planned = 0;
  seq.done = 0;
  seq.published = 0;
  const auto chain = reusable(seq, config_.limits.block_tokens);
  seq.probed = pool_.match(chain).blocks;
  seq.bucket = bucket_of(uncached_ms(seq), config_.step_ms);
  pool_.touch(chain);
  waiting_.insert(seq.seq);
}

// Whether the next block that `seq` lacks is being computed by a sequence of better rank.
bool Scheduler::prefix_in_the_making(Sequence& seq) {
  const auto chain = reusable(seq, config_.limits.block_tokens);
  size_t next = std::min(static_cast<size_t>(seq.probed), chain.size());
  while (next > 0 && !pool_.knows(chain[next - 1])) --next;  // evicted since
  while (next < chain.size() && pool_.knows(chain[next])) ++next;
  seq.probed = static_cast<int32_t>(next);
  if (next == chain.size()) return false;
  const auto maker = in_the_making_.find(chain[next]);
  return maker != in_the_making_.end() && rank(get(maker->second)) < rank(seq);
}

Scheduler::Start Scheduler::start(Sequence& seq) {
  if (running() + leaving_ >= config_.limits.sequences_max) return Start::kNoRoom;
  if (prefix_in_the_making(seq)) {
    ++counters_.prefix_waits;
    return Start::kPrefixInTheMaking;
  }
  const auto chain = reusable(seq, config_.limits.block_tokens);
  const BlockPool::Match match = pool_.match(chain);
  const int32_t fresh = blocks_for(seq.known) - match.blocks;
  // Shared blocks that are cached now stop being available once this sequence holds them.
  const int32_t available = pool_.ledger().available() - match.cached;
  if (available < fresh + running()) return Start::kNoRoom;

  seq.blocks = pool_.share(chain);  // before taking others, which may evict
  seq.blocks.reserve(static_cast<size_t>(blocks_for(seq.length_max)));  // all it will have
  for (int32_t i = 0; i < fresh; ++i) seq.blocks.push_back(pool_.take().value());
  seq.published = match.blocks;
  seq.planned = seq.done = match.blocks * config_.limits.block_tokens;
  if (seq.cached_tokens < 0) seq.cached_tokens = seq.planned;
  if (seq.preemptions > 0) ++counters_.resumes;
  if (match.blocks > 0) ++counters_.prefix_hits;
  for (size_t i = static_cast<size_t>(match.blocks); i < seq.hashes.size(); ++i) {
    in_the_making_.emplace(seq.hashes[i], seq.seq);
  }
  seq.state = SeqState::kPrefilling;
  waiting_.erase(seq.seq);
  running_.insert(seq.seq);
  return Start::kStarted;
}

// Seals the blocks that are full and computed.
void Scheduler::publish(Sequence& seq) {
  const int32_t named = static_cast<int32_t>(seq.hashes.size());
  const int32_t full = std::min(seq.done / config_.limits.block_tokens, named);
  for (; seq.published < full; ++seq.published) {
    const size_t i = static_cast<size_t>(seq.published);
    pool_.publish(seq.blocks[i], seq.hashes[i]);
    const auto maker = in_the_making_.find(seq.hashes[i]);
    if (maker != in_the_making_.end() && maker->second == seq.seq) in_the_making_.erase(maker);
  }
}

void Scheduler::withdraw_promises(const Sequence& seq) {
  for (size_t i = static_cast<size_t>(seq.published); i < seq.hashes.size(); ++i) {
    const auto maker = in_the_making_.find(seq.hashes[i]);
    if (maker != in_the_making_.end() && maker->second == seq.seq) in_the_making_.erase(maker);
  }
}

void Scheduler::end(SeqId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  leave(it->second, true);
  pool_.ledger().check();
}

void Scheduler::leave(Sequence& seq, bool ended) {
  if (seq.state == SeqState::kLeaving) {
    seq.ended = seq.ended || ended;
    return;
  }
  if (seq.state == SeqState::kWaiting) {
    waiting_.erase(seq.seq);
  } else {
    running_.erase(seq.seq);
    withdraw_promises(seq);
  }
  ++leaving_;
  seq.state = SeqState::kLeaving;
  seq.ended = ended;
  if (seq.in_flight == 0) finish_leaving(seq);
}

void Scheduler::finish_leaving(Sequence& seq) {
  --leaving_;
  pool_.release(seq.blocks);
  seq.blocks.clear();
  if (!seq.ended) {
    LS_CHECK(seq.pending == 0);
    wait(seq);
    return;
  }
  if (seq.introduced) ends_.push_back(seq.seq);
  sequences_.erase(seq.seq);
}

void Scheduler::on_step_done(StepId step, const std::vector<SeqOutcome>& outcomes,
                             Duration compute) {
  LS_CHECK(plans_in_flight_ > 0 && in_flight_[0].step == step, "step {} was not next",
           step.value);
  --plans_in_flight_;
  std::rotate(in_flight_.begin(), in_flight_.begin() + 1, in_flight_.end());
  const InFlight& record = in_flight_.back();
  LS_CHECK(outcomes.size() == record.work.size());
  bool all_ran = true;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    all_ran = all_ran && !outcomes[i].skipped;
    apply(record.work[i], outcomes[i]);
  }
  if (all_ran) cost_.observe(record.shape, compute);
  pool_.ledger().check();
}

void Scheduler::apply(const SeqWork& work, const SeqOutcome& outcome) {
  LS_CHECK(work.seq == outcome.seq);
  Sequence& seq = get(work.seq);
  --seq.in_flight;
  if (work.sample) --seq.pending;
  if (outcome.skipped) {
    LS_CHECK(seq.state == SeqState::kLeaving && seq.ended, "sequence {} was skipped alive",
             seq.seq.value);
    counters_.skipped_rows += static_cast<uint64_t>(work.count);
  } else {
    seq.done = work.first + work.count;
    if (outcome.token) {
      LS_CHECK(work.sample && seq.known < seq.length_max);
      ++seq.known;
    }
    if (outcome.hash) seq.hashes.push_back(*outcome.hash);
    publish(seq);
    const bool goes_on = outcome.token || !work.sample;
    LS_CHECK(outcome.ended || goes_on || (seq.state == SeqState::kLeaving && seq.ended),
             "no token for sequence {}", seq.seq.value);
    if (outcome.ended) leave(seq, true);
  }
  // leave() has finished already when nothing was in flight and it was running until now.
  const auto it = sequences_.find(work.seq);
  if (it != sequences_.end() && it->second.state == SeqState::kLeaving &&
      it->second.in_flight == 0) {
    finish_leaving(it->second);
  }
}

int32_t Scheduler::cached_tokens(const std::vector<BlockHash>& hashes,
                                 int32_t prompt_tokens) const {
  const int32_t usable = (prompt_tokens - 1) / config_.limits.block_tokens;
  const auto chain = std::span(hashes).first(static_cast<size_t>(usable));
  return pool_.match(chain).blocks * config_.limits.block_tokens;
}

Duration Scheduler::backlog() const {
  double ms = 0.0;
  for (const SeqId id : waiting_) ms += uncached_ms(*find(id));
  return Duration::from_milliseconds(ms);
}

void Scheduler::audit() const {
  pool_.audit();
  std::map<BlockId, int32_t> holders;
  int32_t leaving = 0;
  for (const auto& [id, seq] : sequences_) {
    for (const BlockId block : seq.blocks) ++holders[block];
    leaving += seq.state == SeqState::kLeaving ? 1 : 0;
    const bool waits = seq.state == SeqState::kWaiting;
    LS_CHECK(waiting_.contains(id) == waits);
    LS_CHECK(running_.contains(id) == (!waits && seq.state != SeqState::kLeaving));
    LS_CHECK(!waits || (seq.blocks.empty() && seq.in_flight == 0 && seq.pending == 0));
    LS_CHECK(seq.done <= seq.planned && seq.planned <= seq.length_planned());
    LS_CHECK(seq.length_planned() <= seq.length_max || seq.state == SeqState::kLeaving);
    LS_CHECK(seq.published <= static_cast<int32_t>(seq.blocks.size()));
  }
  LS_CHECK(leaving == leaving_);
  for (int32_t i = 0; i < ledger().total(); ++i) {
    const auto it = holders.find(BlockId{i});
    LS_CHECK(ledger().holders(BlockId{i}) == (it == holders.end() ? 0 : it->second),
             "holders of block {}", i);
  }
  for (const auto& [hash, id] : in_the_making_) LS_CHECK(running_.contains(id));
}

}  // namespace lineshaft::policy
