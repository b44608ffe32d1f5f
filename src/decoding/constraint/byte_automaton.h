// Byte automata: an NFA over UTF-8 bytes and the DFA that is made of it as it is walked.
//
// The one way in which the constraints know regular languages (patterns, formats, expressions).
// States of the DFA are made when a text first meets them, so a large pattern costs what is used of
// it. Must not know JSON, schemas or tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lineshaft::decoding {

// Ranges of code points, both ends included; ascending and apart once normalize()d.
using CodePointRanges = std::vector<std::pair<uint32_t, uint32_t>>;

inline constexpr uint32_t kCodePointMax = 0x10ffff;

CodePointRanges normalize(CodePointRanges ranges);
// All code points that are not in `ranges` (normalized).
CodePointRanges complement(const CodePointRanges& ranges);

struct Nfa {
  enum class Op : uint8_t {
    kBytes,  // reads a byte in [low, high], goes to next
    kSplit,  // reads nothing, goes to next and other
    kBegin,  // passes at the first byte only
    kEnd,    // passes after the last byte only
    kMatch,
  };
  struct Node {
    Op op;
    uint8_t low = 0;
    uint8_t high = 0;
    int32_t next = -1;
    int32_t other = -1;
  };
  std::vector<Node> nodes;
  int32_t start = 0;
};

// Builds NFAs back to front: every call gets the node that follows and returns the entry.
class NfaBuilder {
 public:
  explicit NfaBuilder(size_t nodes_max) : nodes_max_(nodes_max) {}

  int32_t add(Nfa::Node node);
  // One code point of `ranges` (normalized; surrogates match nothing), as UTF-8.
  int32_t code_points(const CodePointRanges& ranges, int32_t next);
  // A node that can't be passed.
  int32_t nothing();
  // True once more than nodes_max nodes were asked for; the result is then of no use.
  bool full() const { return full_; }
  Nfa::Node& node(int32_t index) { return nfa_.nodes[static_cast<size_t>(index)]; }
  Nfa finish(int32_t start);

 private:
  int32_t bytes(uint8_t low, uint8_t high, int32_t next);
  int32_t either(int32_t a, int32_t b);
  int32_t utf8_range(uint32_t low, uint32_t high, int32_t next);

  Nfa nfa_;
  size_t nodes_max_;
  bool full_ = false;
  std::map<std::tuple<uint8_t, uint8_t, int32_t>, int32_t> shared_;
};

// The deterministic automaton of one NFA. Not for two threads at once.
class LazyDfa {
 public:
  static constexpr int32_t kDead = 0;  // nothing that follows can match

  // search: the match may begin and end anywhere in the text; else it is the whole text.
  LazyDfa(std::shared_ptr<const Nfa> nfa, bool search);

  int32_t start() const { return start_; }
  int32_t next(int32_t state, uint8_t byte) {
    const int32_t known = states_[static_cast<size_t>(state)].next[classes_[byte]];
    return known >= 0 ? known : make_next(state, byte);
  }
  // True when the text that led to `state` matches.
  bool accepts(int32_t state) const { return states_[static_cast<size_t>(state)].accepts; }

  // Bytes of one class lead from every state to the same one.
  int class_of(uint8_t byte) const { return classes_[byte]; }
  size_t memory_bytes() const { return memory_bytes_; }

 private:
  struct State {
    std::vector<int32_t> nodes;  // ascending
    std::vector<int32_t> next;   // by class; -1: not made yet
    bool accepts = false;
  };

  void close(int32_t node, bool at_begin, bool at_end, std::vector<int32_t>& out);
  int32_t intern(std::vector<int32_t> nodes, bool at_begin);
  int32_t make_next(int32_t state, uint8_t byte);

  std::shared_ptr<const Nfa> nfa_;
  bool search_;
  std::array<uint8_t, 256> classes_{};
  int class_count_ = 0;
  std::vector<State> states_;
  std::unordered_map<uint64_t, std::vector<int32_t>> by_hash_;
  std::vector<uint32_t> seen_;  // marks of close(), by node
  uint32_t mark_ = 0;
  int32_t start_ = 0;
  size_t memory_bytes_ = 0;
};

}  // namespace lineshaft::decoding
