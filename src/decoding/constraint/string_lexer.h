// StringLexer: reads the inside of a JSON string and finds which formulas its text fulfils.
//
// A lexer state is the product of all automata that the formulas ask for (one trie for all fixed
// texts, one DFA a pattern, the count of code points where it must be part of the state), together
// with the place inside an escape. Made as they are met, kept as tables of 256 entries. A state
// that can't lead to a text with outputs[0] true is never entered. Must not know objects or arrays.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "decoding/constraint/byte_automaton.h"
#include "decoding/constraint/expr.h"

namespace lineshaft::decoding {

// One truth value an output; interned, so that equal outcomes are one id.
class Outcomes {
 public:
  int32_t intern(const std::vector<bool>& values);
  const std::vector<bool>& at(int32_t id) const { return values_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::vector<bool>> values_;
  std::map<std::vector<bool>, int32_t> index_;
};

class StringLexer {
 public:
  static constexpr int32_t kReject = -1;
  static constexpr int32_t kClose = -2;         // the byte was the closing quote
  static constexpr int32_t kCounts = 1 << 30;   // added to a state: the byte began a code point

  StringLexer(const ExprPool& pool, Outcomes& outcomes) : pool_(pool), outcomes_(outcomes) {}

  // The automaton that Expr::kPattern `index` names; indices are given in order from 0.
  void add_pattern(std::shared_ptr<const Nfa> nfa);

  // A spec for formulas projected to strings; outputs[0] is the one that must hold.
  int32_t spec(const std::vector<ExprId>& outputs);
  // The state behind the opening quote; kReject when no text fulfils outputs[0].
  int32_t start(int32_t spec);
  // The next state (with kCounts or without), kReject or kClose. Whether a close is right is asked
  // by outcome().
  int32_t step(int32_t state, uint8_t byte) {
    const int32_t next = lexes_[static_cast<size_t>(state)].next[byte];
    return next != kUnknown ? next : make_next(state, byte);
  }

  // True when the count of code points matters beside the state.
  bool counted(int32_t state) const { return spec_of(state).counted; }
  // True when a text of `count` code points so far can still fulfil outputs[0].
  bool count_possible(int32_t state, int64_t count);

  // The outcome of a text that ends here (between code points), or kReject when outputs[0] fails.
  int32_t outcome(int32_t state, int64_t count);
  // Which fixed text of the spec it is, as the index in the pool; -1: none.
  int32_t text_index(int32_t state) const;
  // True when whatever comes before the closing quote keeps the state possible, and nothing is
  // being escaped.
  bool universal(int32_t state);
  bool at_boundary(int32_t state) const;

  size_t memory_bytes() const { return memory_bytes_; }

 private:
  static constexpr int32_t kUnknown = -3;
  enum class Mode : uint8_t { kPlain, kEscape, kHex, kLowBackslash, kLowU, kLowHex };

  struct Spec {
    std::vector<ExprId> outputs;
    std::vector<int32_t> patterns;        // numbers of automata
    std::vector<int64_t> lengths;         // thresholds, ascending
    bool counted = false;                 // lengths are checked by count
    bool unrolled = false;                // lengths are part of the state
    std::vector<std::array<int32_t, 3>> edges;  // of the trie: node, byte, node; sorted
    std::vector<int32_t> node_text;       // per trie node: index of the text that ends here, or -1
    std::vector<uint8_t> representatives;  // one byte of each class
  };
  struct Product {
    int32_t spec = 0;
    std::vector<int32_t> parts;  // UTF-8 state, trie node or -1, DFAs, [count]
    int8_t live = -1;            // -1: not known yet
    int8_t universal = -1;
  };
  struct Lex {
    int32_t product = 0;
    Mode mode = Mode::kPlain;
    int digits = 0;         // hexadecimal digits read
    uint32_t value = 0;     // of them, or the high surrogate above bit 16
    std::array<int32_t, 256> next;
  };

  const Spec& spec_of(int32_t state) const;
  void plan(Spec& spec);
  void add_text(Spec& spec, int32_t text);
  void find_representatives(Spec& spec);
  int32_t product(int32_t spec, std::vector<int32_t> parts);
  int32_t product_step(int32_t from, uint8_t byte);
  int32_t product_code_point(int32_t from, uint32_t c);
  int trie_step(const Spec& spec, int32_t node, uint8_t byte) const;
  bool holds(const Product& p, ExprId formula, int64_t count) const;
  bool can_end(const Product& p) const;
  bool live(int32_t product);
  bool live_onward(int32_t product);
  void successors(const Product& p, std::vector<uint8_t>& out) const;
  bool live_range(int32_t product, uint32_t low, uint32_t high);
  int32_t lex(int32_t product, Mode mode, int digits, uint32_t value);
  int32_t make_next(int32_t state, uint8_t byte);
  int32_t plain_step(const Lex& from, uint8_t byte);
  int32_t escape_step(const Lex& from, uint8_t byte);
  int32_t hex_step(const Lex& from, uint8_t byte);
  int32_t after_code_point(int32_t product, uint32_t c);
  bool explore_universal(int32_t product);

  const ExprPool& pool_;
  Outcomes& outcomes_;
  std::vector<std::unique_ptr<LazyDfa>> patterns_;
  std::vector<Spec> specs_;
  std::map<std::vector<ExprId>, int32_t> spec_index_;
  std::vector<Product> products_;
  std::unordered_map<uint64_t, std::vector<int32_t>> product_index_;
  std::unordered_map<uint64_t, int32_t> product_edges_;  // product, byte → product
  std::vector<Lex> lexes_;
  std::map<std::array<uint64_t, 2>, int32_t> lex_index_;
  size_t memory_bytes_ = 0;
};

}  // namespace lineshaft::decoding
