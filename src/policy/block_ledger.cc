#include "policy/block_ledger.h"

#include <set>

#include "base/check.h"

namespace lineshaft::policy {

BlockLedger::BlockLedger(int32_t blocks) {
  LS_CHECK(blocks >= 0);
  entries_.resize(static_cast<size_t>(blocks));
  free_.reserve(entries_.size());
  for (int32_t i = blocks - 1; i >= 0; --i) free_.push_back(BlockId{i});  // lowest on top
}

const BlockLedger::Entry& BlockLedger::at(BlockId block) const {
  LS_CHECK(block.value >= 0 && block.value < total(), "no block {}", block.value);
  return entries_[static_cast<size_t>(block.value)];
}

BlockLedger::Entry& BlockLedger::at(BlockId block) {
  return const_cast<Entry&>(static_cast<const BlockLedger*>(this)->at(block));
}

void BlockLedger::enter_cached(BlockId block, Entry& entry) {
  entry.cached = true;
  entry.before = newest_;
  entry.after = -1;
  after(newest_) = block.value;
  newest_ = block.value;
  ++cached_;
}

void BlockLedger::leave_cached(Entry& entry) {
  entry.cached = false;
  after(entry.before) = entry.after;
  before(entry.after) = entry.before;
  --cached_;
}

std::optional<BlockLedger::Taken> BlockLedger::take() {
  Taken taken;
  if (!free_.empty()) {
    taken.block = free_.back();
    free_.pop_back();
  } else if (oldest_ >= 0) {
    taken.block = BlockId{oldest_};
    Entry& entry = at(taken.block);
    leave_cached(entry);
    taken.evicted = entry.name;
    entry.name.reset();
  } else {
    return std::nullopt;
  }
  at(taken.block).holders = 1;
  ++held_;
  return taken;
}

void BlockLedger::hold(BlockId block) {
  Entry& entry = at(block);
  if (entry.holders == 0) {
    LS_CHECK(entry.cached, "block {} is free and can't be shared", block.value);
    leave_cached(entry);
    ++held_;
  }
  ++entry.holders;
}

void BlockLedger::release(BlockId block) {
  Entry& entry = at(block);
  LS_CHECK(entry.holders > 0, "block {} has no holder", block.value);
  if (--entry.holders > 0) return;
  --held_;
  if (entry.name) {
    enter_cached(block, entry);
  } else {
    free_.push_back(block);
  }
}

void BlockLedger::name(BlockId block, const BlockHash& hash) {
  Entry& entry = at(block);
  LS_CHECK(entry.holders > 0 && !entry.name, "block {} can't be named", block.value);
  entry.name = hash;
}

void BlockLedger::touch(BlockId block) {
  Entry& entry = at(block);
  if (!entry.cached) return;
  leave_cached(entry);
  enter_cached(block, entry);
}

void BlockLedger::check() const {
  LS_CHECK(free() + cached() + held_ == total(), "{} free + {} cached + {} held != {} blocks",
           free(), cached(), held_, total());
}

void BlockLedger::audit() const {
  check();
  std::set<int32_t> listed;
  for (const BlockId block : free_) {
    const Entry& entry = entries_[static_cast<size_t>(block.value)];
    LS_CHECK(entry.holders == 0 && !entry.cached && !entry.name, "block {}", block.value);
    LS_CHECK(listed.insert(block.value).second, "block {} is listed twice", block.value);
  }
  int32_t last = -1;
  for (int32_t i = oldest_; i >= 0; i = entries_[static_cast<size_t>(i)].after) {
    const Entry& entry = entries_[static_cast<size_t>(i)];
    LS_CHECK(entry.holders == 0 && entry.cached && entry.name, "block {}", i);
    LS_CHECK(entry.before == last, "block {}", i);
    LS_CHECK(listed.insert(i).second, "block {} is listed twice", i);
    last = i;
  }
  LS_CHECK(newest_ == last);
  int32_t held = 0;
  for (const Entry& entry : entries_) held += entry.holders > 0 ? 1 : 0;
  LS_CHECK(held == held_);
}

}  // namespace lineshaft::policy
