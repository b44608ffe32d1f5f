// Grammar: context-free grammars as GBNF and a Lark-like EBNF write them, and the set-of-places
// automaton that reads them byte by byte.
//
// A place is a set of (node, caller) pairs, where a caller is a node of a shared, interned stack
// graph (as in generalized LR parsing and Earley's algorithm); equal places have equal ids, so that
// what was found out for one is kept. Any context-free grammar is read, left recursion included.
// Must not know tokens or JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "decoding/constraint/byte_automaton.h"

namespace lineshaft::decoding {

struct Grammar {
  enum class Op : uint8_t { kBytes, kSplit, kCall, kReturn };
  struct Node {
    Op op = Op::kReturn;
    uint8_t low = 0;
    uint8_t high = 0;
    int32_t next = -1;
    int32_t other = -1;  // kSplit: the other way; kCall: the rule
  };
  std::vector<Node> nodes;
  std::vector<int32_t> rules;  // entry node of each
  int32_t root = 0;
};

struct GrammarLimits {
  size_t text_bytes_max = size_t{1} << 20;
  size_t nodes_max = 200'000;
  int depth_max = 100;
  int repeat_max = 1000;
};

// GBNF where the text has "::=" (llama.cpp, grammars/README.md; rule `root`), else Lark (rule
// `start`; %ignore, terminals as /regular expressions/ or "texts", x~n..m; without priorities,
// templates and imports). Terminals are not lexed longest-first: the language is that of the
// grammar read as one over characters. kInvalidArgument names the line; kResourceExhausted beyond
// `limits`; kUnimplemented for what can't be an automaton.
StatusOr<Grammar> parse_grammar(std::string_view text, const GrammarLimits& limits = {});

// One of `texts`, exactly.
StatusOr<Grammar> choice_grammar(const std::vector<std::string>& texts);

class GrammarMachine {
 public:
  static constexpr int32_t kReject = -1;

  explicit GrammarMachine(Grammar grammar);

  int32_t start() const { return start_; }
  int32_t step(int32_t state, uint8_t byte);
  bool can_end(int32_t state) const { return states_[static_cast<size_t>(state)].accepts; }
  size_t memory_bytes() const { return memory_bytes_; }

 private:
  // Who called: the rule's entry in a group of calls made at one position.
  struct Caller {
    int32_t group = kRoot;
    int32_t rule = 0;
    auto operator<=>(const Caller&) const = default;
  };
  struct Item {
    int32_t node = 0;
    Caller caller;
    auto operator<=>(const Item&) const = default;
  };
  static constexpr int32_t kRoot = -1;  // nobody: the whole text
  static constexpr int32_t kSelf = -2;  // the group that is being made
  // Each rule that was called at one position, with the places to return to.
  using Group = std::map<int32_t, std::vector<Item>>;
  struct State {
    std::vector<Item> items;  // all at kBytes nodes; ascending
    bool accepts = false;
  };
  struct Closure;

  int32_t close(std::vector<Item> kernel);
  void visit(const Item& item, Closure& closure) const;
  void add_return(int32_t rule, const Item& to, Closure& closure) const;

  Grammar grammar_;
  std::vector<Group> groups_;
  std::map<Group, int32_t> group_index_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<Item>, bool>, int32_t> state_index_;
  std::unordered_map<uint64_t, int32_t> edges_;
  int32_t start_ = 0;
  size_t memory_bytes_ = 0;
};

}  // namespace lineshaft::decoding
