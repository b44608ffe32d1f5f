// Counter-based random bits: bits = f(key, counter). No state, no floats in the interface, so a
// draw never depends on how many draws were made before it or by whom.
#pragma once

#include <cstdint>

namespace lineshaft {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// A key for one purpose; split() derives keys whose streams are unrelated.
class RngKey {
 public:
  constexpr explicit RngKey(uint64_t seed) : key_(mix64(seed)) {}
  constexpr RngKey split(uint64_t purpose) const {
    RngKey k(0);
    k.key_ = mix64(key_ ^ mix64(purpose ^ 0x6c696e6573686166ull));
    return k;
  }
  // 64 random bits for this counter; equal arguments give equal bits for ever.
  constexpr uint64_t bits(uint64_t counter) const { return mix64(key_ ^ mix64(counter)); }
  // A number in [0, n), n > 0, by multiply-shift (bias below n / 2^64).
  constexpr uint64_t below(uint64_t counter, uint64_t n) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(bits(counter)) * n) >> 64);
  }
  constexpr uint64_t value() const { return key_; }

 private:
  uint64_t key_;
};

}  // namespace lineshaft
