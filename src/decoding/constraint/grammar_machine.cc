#include <algorithm>
#include <set>

#include "decoding/constraint/grammar.h"

namespace lineshaft::decoding {

struct GrammarMachine::Closure {
  std::vector<Item> todo;
  std::set<Item> seen;
  std::vector<Item> reading;  // items at kBytes nodes
  Group group;
  std::set<int32_t> empty;    // rules called here that can match nothing
  std::map<int32_t, std::set<int32_t>> forwards;  // rule → rules that return where it does
  bool accepts = false;

  void push(const Item& item) {
    if (seen.insert(item).second) todo.push_back(item);
  }
};

GrammarMachine::GrammarMachine(Grammar grammar) : grammar_(std::move(grammar)) {
  const int32_t entry = grammar_.rules[static_cast<size_t>(grammar_.root)];
  start_ = close({Item{entry, Caller{}}});
}

// `to` is where `rule`, called at this position, returns.
void GrammarMachine::add_return(int32_t rule, const Item& to, Closure& closure) const {
  std::vector<Item>& returns = closure.group[rule];
  if (std::find(returns.begin(), returns.end(), to) != returns.end()) return;
  returns.push_back(to);
  if (closure.empty.contains(rule)) {
    if (to.node < 0) {
      closure.accepts = true;
    } else {
      closure.push(to);
    }
  }
  const std::set<int32_t> next = closure.forwards[rule];
  for (const int32_t other : next) add_return(other, to, closure);
}

void GrammarMachine::visit(const Item& item, Closure& closure) const {
  const Grammar::Node& node = grammar_.nodes[static_cast<size_t>(item.node)];
  const Caller caller = item.caller;
  switch (node.op) {
    case Grammar::Op::kBytes:
      closure.reading.push_back(item);
      return;
    case Grammar::Op::kSplit:
      closure.push({node.next, caller});
      closure.push({node.other, caller});
      return;
    case Grammar::Op::kCall: {
      const int32_t rule = node.other;
      closure.push({grammar_.rules[static_cast<size_t>(rule)], {kSelf, rule}});
      closure.group[rule];
      const bool tail =
          grammar_.nodes[static_cast<size_t>(node.next)].op == Grammar::Op::kReturn;
      // A call at the very end returns where its caller does, so that lists by right recursion
      // don't pile up callers.
      if (!tail) {
        add_return(rule, {node.next, caller}, closure);
      } else if (caller.group == kRoot) {
        add_return(rule, {-1, Caller{}}, closure);
      } else if (caller.group == kSelf) {
        if (caller.rule == rule) return;
        closure.forwards[caller.rule].insert(rule);
        const std::vector<Item> returns = closure.group[caller.rule];
        for (const Item& to : returns) add_return(rule, to, closure);
      } else {
        for (const Item& to : groups_[static_cast<size_t>(caller.group)].at(caller.rule)) {
          add_return(rule, to, closure);
        }
      }
      return;
    }
    case Grammar::Op::kReturn:
      break;
  }
  if (caller.group == kRoot) {
    closure.accepts = true;
    return;
  }
  if (caller.group == kSelf) closure.empty.insert(caller.rule);
  const std::vector<Item> returns =
      caller.group == kSelf ? closure.group[caller.rule]
                            : groups_[static_cast<size_t>(caller.group)].at(caller.rule);
  for (const Item& to : returns) {
    if (to.node < 0) {
      closure.accepts = true;
    } else {
      closure.push(to);
    }
  }
}

int32_t GrammarMachine::close(std::vector<Item> kernel) {
  Closure closure;
  for (const Item& item : kernel) closure.push(item);
  while (!closure.todo.empty()) {
    const Item item = closure.todo.back();
    closure.todo.pop_back();
    visit(item, closure);
  }
  if (closure.reading.empty() && !closure.accepts) return kReject;
  // Callers of this position that nothing here refers to are dropped by their group's key only
  // when no item needs it.
  for (auto& [rule, returns] : closure.group) std::sort(returns.begin(), returns.end());
  const bool needed = std::any_of(closure.reading.begin(), closure.reading.end(),
                                  [](const Item& item) { return item.caller.group == kSelf; });
  if (needed) {
    const auto id = static_cast<int32_t>(groups_.size());
    const auto [found, is_new] = group_index_.emplace(std::move(closure.group), id);
    if (is_new) {
      Group group = found->first;
      for (auto& [rule, returns] : group) {
        memory_bytes_ += 2 * (64 + returns.size() * sizeof(Item));
        for (Item& to : returns) {
          if (to.caller.group == kSelf) to.caller.group = id;
        }
      }
      groups_.push_back(std::move(group));
    }
    for (Item& item : closure.reading) {
      if (item.caller.group == kSelf) item.caller.group = found->second;
    }
  }
  std::sort(closure.reading.begin(), closure.reading.end());
  const auto [found, is_new] = state_index_.emplace(
      std::pair(std::move(closure.reading), closure.accepts), static_cast<int32_t>(states_.size()));
  if (is_new) {
    states_.push_back({found->first.first, closure.accepts});
    memory_bytes_ += 2 * sizeof(Item) * states_.back().items.size() + 128;
  }
  return found->second;
}

int32_t GrammarMachine::step(int32_t state, uint8_t byte) {
  const uint64_t key = static_cast<uint64_t>(state) << 8 | byte;
  if (const auto known = edges_.find(key); known != edges_.end()) return known->second;
  std::vector<Item> kernel;
  for (const Item& item : states_[static_cast<size_t>(state)].items) {
    const Grammar::Node& node = grammar_.nodes[static_cast<size_t>(item.node)];
    if (node.low <= byte && byte <= node.high) kernel.push_back({node.next, item.caller});
  }
  const int32_t next = kernel.empty() ? kReject : close(std::move(kernel));
  edges_.emplace(key, next);
  memory_bytes_ += 32;
  return next;
}

}  // namespace lineshaft::decoding
