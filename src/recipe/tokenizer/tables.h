// Open-addressing tables of the tokenizers: pairs of ids, and strings held by others.
// Filled at load, then read only. They know nothing of what the ids mean.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace lineshaft::recipe {

// (a, b) -> (first, second). Half full at most, linear probing.
class PairTable {
 public:
  struct Slot {
    uint32_t a = kEmpty;
    uint32_t b = kEmpty;
    uint32_t first = 0;
    uint32_t second = 0;
  };

  explicit PairTable(size_t pairs_max = 0) : slots_(std::bit_ceil(2 * pairs_max + 2)) {}

  // False, and nothing changes, when the pair is known already. `a` must not be kEmpty.
  bool insert(uint32_t a, uint32_t b, uint32_t first, uint32_t second) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[locate(a, b)];
    if (slot.a != kEmpty) return false;
    slot = {a, b, first, second};
    ++count_;
    return true;
  }

  // Null when the pair is unknown.
  const Slot* find(uint32_t a, uint32_t b) const {
    const Slot& slot = slots_[locate(a, b)];
    return slot.a == kEmpty ? nullptr : &slot;
  }

  static constexpr uint32_t kEmpty = 0xffffffffu;

 private:
  size_t locate(uint32_t a, uint32_t b) const {
    const size_t mask = slots_.size() - 1;
    const uint64_t key = static_cast<uint64_t>(a) << 32 | b;
    // Fibonacci hashing (Knuth 6.4); the high bits are the mixed ones.
    size_t i = (key * 0x9e3779b97f4a7c15ull ^ key >> 29) * 0xbf58476d1ce4e5b9ull >> 32 & mask;
    while (slots_[i].a != kEmpty && (slots_[i].a != a || slots_[i].b != b)) i = (i + 1) & mask;
    return i;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.a != kEmpty) slots_[locate(slot.a, slot.b)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// string -> index into a vector of strings that outlives the table and does not change.
class StringTable {
 public:
  explicit StringTable(const std::vector<std::string>& strings)
      : strings_(&strings), slots_(std::bit_ceil(2 * strings.size() + 2)) {}

  // Keeps the first index when two strings are equal; false then.
  bool insert(int32_t index) {
    const std::string_view text = (*strings_)[index];
    const uint64_t hash = hash_of(text);
    Slot& slot = slots_[locate(text, hash)];
    if (slot.index >= 0) return false;
    slot = {index, tag_of(hash)};
    return true;
  }

  // -1 when unknown.
  int32_t find(std::string_view text) const { return slots_[locate(text, hash_of(text))].index; }

 private:
  struct Slot {
    int32_t index = -1;
    uint32_t tag = 0;  // spares a look at a string that is not the one
  };

  static uint64_t hash_of(std::string_view text) {
    return xxh64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  size_t locate(std::string_view text, uint64_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    while (slots_[i].index >= 0 &&
           (slots_[i].tag != tag_of(hash) || (*strings_)[slots_[i].index] != text)) {
      i = (i + 1) & mask;
    }
    return i;
  }

  const std::vector<std::string>* strings_;
  std::vector<Slot> slots_;
};

}  // namespace lineshaft::recipe
