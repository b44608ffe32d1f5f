// The part of JsonMachine that works on formulas: what a value, a member or an item must be, and
// what is left to fulfil once it was read.
#include <algorithm>

#include "decoding/constraint/json_machine.h"

namespace lineshaft::decoding {
namespace {

constexpr int kItemsSimulatedMax = 64;
constexpr int kViableDepthMax = 48;  // of questions within questions; beyond: taken for possible

}  // namespace

ExprId const_formula(ExprPool& pool, const Json& value) {
  const auto typed = [&](JsonType type, std::vector<ExprId> parts) {
    parts.push_back(pool.types(type_bit(type)));
    return pool.make_and(std::move(parts));
  };
  if (value.is_null()) return pool.types(type_bit(JsonType::kNull));
  if (value.is_boolean()) {
    return pool.types(type_bit(value.get<bool>() ? JsonType::kTrue : JsonType::kFalse));
  }
  if (value.is_number()) {
    const Decimal number = parse_decimal(write_json(value));
    return typed(JsonType::kNumber, {pool.at_most(number), pool.make_not(pool.less(number))});
  }
  if (value.is_string()) {
    return typed(JsonType::kString, {pool.is(value.get_ref<const std::string&>())});
  }
  std::vector<ExprId> parts;
  if (value.is_array()) {
    const auto size = static_cast<int64_t>(value.size());
    parts = {pool.items(size, 0, kNoEnd, ExprPool::kTrue),
             pool.make_not(pool.items(size + 1, 0, kNoEnd, ExprPool::kTrue))};
    for (int64_t i = 0; i < size; ++i) {
      const ExprId item = const_formula(pool, value[static_cast<size_t>(i)]);
      parts.push_back(pool.make_not(pool.items(1, i, i + 1, pool.make_not(item))));
    }
    return typed(JsonType::kArray, std::move(parts));
  }
  std::vector<ExprId> keys;
  for (const auto& [key, member] : value.items()) {
    keys.push_back(pool.is(key));
    parts.push_back(pool.members(1, keys.back(), const_formula(pool, member)));
  }
  const ExprId other = pool.make_not(pool.make_or(std::move(keys)));
  parts.push_back(pool.make_not(pool.members(1, other, ExprPool::kTrue)));
  return typed(JsonType::kObject, std::move(parts));
}

int32_t JsonMachine::value_spec(std::vector<ExprId> outputs) {
  const auto [found, is_new] =
      value_index_.emplace(std::move(outputs), static_cast<int32_t>(values_.size()));
  if (is_new) {
    Value value;
    value.outputs = found->first;
    value.begin.fill(kUnset);
    memory_bytes_ += sizeof(Value) + 8 * value.outputs.size() + 64;
    values_.push_back(std::move(value));
  }
  return found->second;
}

// How a value of that type begins: the state of its lexer, its container, or for a literal its
// outcome; kReject when no value of the type will do.
int32_t JsonMachine::begin(int32_t value, JsonType type) {
  const auto slot = static_cast<size_t>(type);
  if (values_[static_cast<size_t>(value)].begin[slot] != kUnset) {
    return values_[static_cast<size_t>(value)].begin[slot];
  }
  std::vector<ExprId> outputs;
  const std::vector<ExprId> formulas = values_[static_cast<size_t>(value)].outputs;
  for (const ExprId output : formulas) outputs.push_back(pool_.project(output, type));
  int32_t result = kReject;
  if (outputs[0] != ExprPool::kFalse) {
    if (type == JsonType::kString) {
      result = strings_.start(strings_.spec(outputs));
    } else if (type == JsonType::kNumber) {
      result = numbers_.start(numbers_.spec(outputs));
    } else if (type == JsonType::kObject || type == JsonType::kArray) {
      const int32_t first = container(type, std::move(outputs));
      result = viable(first) ? first : kReject;
    } else {
      std::vector<bool> truths;
      for (const ExprId output : outputs) truths.push_back(output == ExprPool::kTrue);
      result = outcomes_.intern(truths);
    }
  }
  values_[static_cast<size_t>(value)].begin[slot] = result;
  return result;
}

bool JsonMachine::viable_value(int32_t value) {
  if (values_[static_cast<size_t>(value)].viable < 0) {
    // While it is being found out (a schema within itself) it counts as possible.
    values_[static_cast<size_t>(value)].viable = 1;
    bool any = false;
    for (int type = 0; type < kJsonTypes && !any; ++type) {
      any = begin(value, static_cast<JsonType>(type)) >= 0;
    }
    values_[static_cast<size_t>(value)].viable = any ? 1 : 0;
  }
  return values_[static_cast<size_t>(value)].viable == 1;
}

bool JsonMachine::satisfiable_formula(ExprId id) {
  if (id <= ExprPool::kTrue) return id == ExprPool::kTrue;
  const auto [found, is_new] = satisfiable_.emplace(id, 1);
  if (!is_new) return found->second == 1;
  const bool result = viable_value(value_spec({id}));
  satisfiable_[id] = result ? 1 : 0;
  return result;
}

int32_t JsonMachine::container(JsonType type, std::vector<ExprId> outputs) {
  const auto [found, is_new] = container_index_.emplace(
      std::pair(type, std::move(outputs)), static_cast<int32_t>(containers_.size()));
  if (!is_new) return found->second;
  Container c;
  c.type = type;
  c.outputs = found->first.second;
  pool_.leaves(c.outputs, c.leaves);
  for (const ExprId leaf : c.leaves) {
    const Expr& e = pool_.at(leaf);
    if (e.kind == Expr::Kind::kUnique) c.unique = true;
    if (e.kind == Expr::Kind::kMembers) c.keys.push_back(e.a);
  }
  std::sort(c.keys.begin(), c.keys.end());
  c.keys.erase(std::unique(c.keys.begin(), c.keys.end()), c.keys.end());
  memory_bytes_ += sizeof(Container) + 8 * (c.outputs.size() + c.leaves.size() + c.keys.size());
  containers_.push_back(std::move(c));
  return found->second;
}

// The outcome when the container ends now: no further member or item fulfils anything.
int32_t JsonMachine::close_outcome(int32_t id) {
  if (containers_[static_cast<size_t>(id)].close_outcome == kUnset) {
    std::vector<bool> truths;
    for (const ExprId output : containers_[static_cast<size_t>(id)].outputs) {
      truths.push_back(pool_.evaluate(output, [&](ExprId leaf) {
        return pool_.at(leaf).kind == Expr::Kind::kUnique;
      }));
    }
    containers_[static_cast<size_t>(id)].close_outcome =
        truths[0] ? outcomes_.intern(truths) : kReject;
  }
  return containers_[static_cast<size_t>(id)].close_outcome;
}

std::vector<ExprId> JsonMachine::conjuncts(int32_t id) const {
  const ExprId goal = containers_[static_cast<size_t>(id)].outputs[0];
  if (pool_.at(goal).kind == Expr::Kind::kAnd) return pool_.at(goal).children;
  return {goal};
}

// How many members or items more the container may have; kNoEnd: no bound is known.
int64_t JsonMachine::most_left(int32_t id) const {
  int64_t most = kNoEnd;
  for (const ExprId literal : conjuncts(id)) {
    if (pool_.at(literal).kind != Expr::Kind::kNot) continue;
    const Expr& leaf = pool_.at(pool_.at(literal).a);
    const bool all_members = leaf.kind == Expr::Kind::kMembers && leaf.a == ExprPool::kTrue &&
                             leaf.b == ExprPool::kTrue;
    const bool all_items = leaf.kind == Expr::Kind::kItems && leaf.a == ExprPool::kTrue &&
                           leaf.low == 0 && leaf.high == kNoEnd;
    if (all_members || all_items) most = std::min(most, leaf.n - 1);
  }
  return most;
}

// What a key must be for its member to be possible.
ExprId JsonMachine::key_goal(int32_t id) {
  const ExprId goal = containers_[static_cast<size_t>(id)].outputs[0];
  const int64_t most = most_left(id);
  const ExprId possible = pool_.substitute(
      goal,
      [&](ExprId literal) {
        const Expr e = pool_.at(literal);
        if (e.kind == Expr::Kind::kMembers) return e.n >= most ? e.a : ExprPool::kTrue;
        if (e.kind != Expr::Kind::kNot) return ExprPool::kTrue;
        const Expr leaf = pool_.at(e.a);
        if (leaf.n > 1 || satisfiable_formula(pool_.make_not(leaf.b))) return ExprPool::kTrue;
        return pool_.make_not(leaf.a);
      },
      true);
  // With no room beside the required members, it must be one of theirs.
  std::vector<ExprId> required;
  for (const ExprId literal : conjuncts(id)) {
    const Expr& leaf = pool_.at(literal);
    const bool fixed = leaf.kind == Expr::Kind::kMembers &&
                       pool_.at(leaf.a).kind == Expr::Kind::kIs;
    const bool known = std::find(required.begin(), required.end(), leaf.a) != required.end();
    if (fixed && !known) required.push_back(leaf.a);
  }
  if (static_cast<int64_t>(required.size()) < most) return possible;
  return pool_.make_and({possible, pool_.make_or(std::move(required))});
}

int32_t JsonMachine::key_start(int32_t id) {
  if (containers_[static_cast<size_t>(id)].key_start == kUnset) {
    std::vector<ExprId> outputs{pool_.project(key_goal(id), JsonType::kString)};
    const std::vector<ExprId> keys = containers_[static_cast<size_t>(id)].keys;
    for (const ExprId key : keys) outputs.push_back(pool_.project(key, JsonType::kString));
    const int32_t start =
        outputs[0] == ExprPool::kFalse ? kReject : strings_.start(strings_.spec(outputs));
    containers_[static_cast<size_t>(id)].key_start = start;
  }
  return containers_[static_cast<size_t>(id)].key_start;
}

// A leaf that only this member can fulfil: its key is the one fixed text.
bool JsonMachine::fixed_key(const Expr& leaf, const Child& child) const {
  const Expr& key = pool_.at(leaf.a);
  return leaf.kind == Expr::Kind::kMembers && key.kind == Expr::Kind::kIs &&
         key.a == child.key_text;
}

// What the value must be for the container to remain possible.
ExprId JsonMachine::child_goal(const Child& child) {
  const std::vector<ExprId> leaves = containers_[static_cast<size_t>(child.container)].leaves;
  const auto relevant = [&](ExprId leaf) {
    const auto at = std::lower_bound(leaves.begin(), leaves.end(), leaf) - leaves.begin();
    return child.relevant[static_cast<size_t>(at)];
  };
  const ExprId goal = containers_[static_cast<size_t>(child.container)].outputs[0];
  const int64_t most = most_left(child.container);
  return pool_.substitute(
      goal,
      [&](ExprId literal) {
        const Expr e = pool_.at(literal);
        const bool negative = e.kind == Expr::Kind::kNot;
        const ExprId leaf_id = negative ? e.a : literal;
        const Expr leaf = pool_.at(leaf_id);
        if (leaf.kind == Expr::Kind::kUnique) return ExprPool::kTrue;
        if (!relevant(leaf_id)) {
          // This one takes the place of one that is needed.
          return !negative && leaf.n >= most ? ExprPool::kFalse : ExprPool::kTrue;
        }
        const ExprId value = leaf.kind == Expr::Kind::kMembers ? leaf.b : leaf.a;
        if (negative) return leaf.n == 1 ? pool_.make_not(value) : ExprPool::kTrue;
        const bool last = leaf.kind == Expr::Kind::kMembers
                              ? fixed_key(leaf, child)
                              : leaf.high != kNoEnd && leaf.high - leaf.low <= leaf.n;
        return last || leaf.n >= most ? value : ExprPool::kTrue;
      },
      true);
}

void JsonMachine::find_tracked(Child& child, ExprId goal) {
  const Container& c = containers_[static_cast<size_t>(child.container)];
  // Literals that must hold for the first formula to hold tell their value's truth.
  const ExprId first = c.outputs[0];
  std::vector<ExprId> must{first};
  if (pool_.at(first).kind == Expr::Kind::kAnd) must = pool_.at(first).children;
  std::vector<ExprId> met{goal};
  if (goal > ExprPool::kTrue && pool_.at(goal).kind == Expr::Kind::kAnd) {
    met = pool_.at(goal).children;
  }
  std::vector<ExprId> wanted;
  for (size_t i = 0; i < c.leaves.size(); ++i) {
    const Expr& leaf = pool_.at(c.leaves[i]);
    if (!child.relevant[i] || leaf.kind == Expr::Kind::kUnique) continue;
    const ExprId value = leaf.kind == Expr::Kind::kMembers ? leaf.b : leaf.a;
    if (value <= ExprPool::kTrue) {
      child.known[value] = value == ExprPool::kTrue;
    } else {
      wanted.push_back(value);
    }
  }
  for (const ExprId value : wanted) {
    const auto has = [&](ExprId formula) {
      if (formula == goal) return true;
      if (std::find(met.begin(), met.end(), formula) != met.end()) return true;
      if (formula <= ExprPool::kTrue || pool_.at(formula).kind != Expr::Kind::kAnd) return false;
      const auto& parts = pool_.at(formula).children;
      return std::all_of(parts.begin(), parts.end(), [&](ExprId part) {
        return std::find(met.begin(), met.end(), part) != met.end();
      });
    };
    if (has(value)) {
      child.known[value] = true;
    } else if (has(pool_.make_not(value))) {
      child.known[value] = false;
    } else if (std::find(child.tracked.begin(), child.tracked.end(), value) ==
               child.tracked.end()) {
      child.tracked.push_back(value);
    }
  }
}

int32_t JsonMachine::make_child(Child child) {
  if (child.container >= 0) {
    const ExprId goal = child_goal(child);
    find_tracked(child, goal);
    std::vector<ExprId> outputs{goal};
    outputs.insert(outputs.end(), child.tracked.begin(), child.tracked.end());
    child.value = value_spec(std::move(outputs));
  }
  memory_bytes_ += sizeof(Child) + child.relevant.size() / 8 + 4 * child.tracked.size() +
                   48 * child.known.size();
  children_.push_back(std::move(child));
  return static_cast<int32_t>(children_.size()) - 1;
}

int32_t JsonMachine::object_child(int32_t id, int32_t outcome, int32_t text) {
  const std::array<int32_t, 3> key{id, outcome, text};
  if (const auto found = object_children_.find(key); found != object_children_.end()) {
    return found->second;
  }
  const Container& c = containers_[static_cast<size_t>(id)];
  const std::vector<bool>& truths = outcomes_.at(outcome);
  Child child;
  child.container = id;
  child.key_text = text;
  for (const ExprId leaf : c.leaves) {
    const auto at = std::lower_bound(c.keys.begin(), c.keys.end(), pool_.at(leaf).a);
    child.relevant.push_back(truths[1 + static_cast<size_t>(at - c.keys.begin())]);
  }
  const int32_t made = make_child(std::move(child));
  object_children_.emplace(key, made);
  return made;
}

int32_t JsonMachine::item_child(int32_t id) {
  if (containers_[static_cast<size_t>(id)].item == kUnset) {
    Child child;
    child.container = id;
    for (const ExprId leaf : containers_[static_cast<size_t>(id)].leaves) {
      const Expr& e = pool_.at(leaf);
      child.relevant.push_back(e.kind == Expr::Kind::kItems && e.low == 0);
    }
    const int32_t made = make_child(std::move(child));
    containers_[static_cast<size_t>(id)].item = made;
  }
  return containers_[static_cast<size_t>(id)].item;
}

// What is left of `formula` behind a member or an item whose formulas came out as `truths`.
ExprId JsonMachine::residual(ExprId formula, const Child& child, const std::vector<bool>& truths,
                             ExprId item_value) {
  const std::vector<ExprId> leaves = containers_[static_cast<size_t>(child.container)].leaves;
  const auto fulfilled = [&](ExprId value) {
    if (const auto found = child.known.find(value); found != child.known.end()) {
      return found->second;
    }
    const auto at = std::find(child.tracked.begin(), child.tracked.end(), value);
    return static_cast<bool>(truths[1 + static_cast<size_t>(at - child.tracked.begin())]);
  };
  return pool_.substitute(
      formula,
      [&](ExprId id) {
        const Expr e = pool_.at(id);
        const auto at = std::lower_bound(leaves.begin(), leaves.end(), id) - leaves.begin();
        const bool relevant = child.relevant[static_cast<size_t>(at)];
        if (e.kind == Expr::Kind::kUnique) {
          const ExprId again = pool_.items(1, 0, kNoEnd, item_value);
          return pool_.make_and({id, pool_.make_not(again)});
        }
        if (e.kind == Expr::Kind::kMembers) {
          const int64_t n = e.n - (relevant && fulfilled(e.b) ? 1 : 0);
          if (n > 0 && fixed_key(e, child)) return ExprPool::kFalse;
          return pool_.members(n, e.a, e.b);
        }
        const int64_t n = e.n - (relevant && fulfilled(e.a) ? 1 : 0);
        const int64_t low = std::max<int64_t>(e.low - 1, 0);
        return pool_.items(n, low, e.high == kNoEnd ? kNoEnd : e.high - 1, e.a);
      },
      false);
}

int32_t JsonMachine::next_container(int32_t child_id, int32_t outcome, ExprId item_value) {
  const std::array<int32_t, 3> key{child_id, outcome, item_value};
  if (const auto found = next_.find(key); found != next_.end()) return found->second;
  const Child child = children_[static_cast<size_t>(child_id)];
  const std::vector<bool> truths = outcomes_.at(outcome);
  const JsonType type = containers_[static_cast<size_t>(child.container)].type;
  std::vector<ExprId> outputs = containers_[static_cast<size_t>(child.container)].outputs;
  for (ExprId& output : outputs) {
    output = pool_.project(residual(output, child, truths, item_value), type);
  }
  if (child.key_text >= 0) {  // no key twice
    const ExprId again = pool_.members(1, pool_.is(pool_.text(child.key_text)), ExprPool::kTrue);
    outputs[0] = pool_.make_and({outputs[0], pool_.make_not(again)});
  }
  int32_t next = kReject;
  if (outputs[0] != ExprPool::kFalse) {
    next = container(type, std::move(outputs));
    if (!viable(next)) next = kReject;
  }
  next_.emplace(key, next);
  memory_bytes_ += 64;
  return next;
}

bool JsonMachine::viable(int32_t id) {
  if (containers_[static_cast<size_t>(id)].viable < 0) {
    if (viable_depth_ >= kViableDepthMax) return true;
    ++viable_depth_;
    containers_[static_cast<size_t>(id)].viable = 1;
    const bool result = close_outcome(id) >= 0 ||
                        (containers_[static_cast<size_t>(id)].type == JsonType::kObject
                             ? viable_object(id)
                             : viable_array(id));
    containers_[static_cast<size_t>(id)].viable = result ? 1 : 0;
    --viable_depth_;
  }
  return containers_[static_cast<size_t>(id)].viable == 1;
}

// Can't be closed yet: needs a key that is possible, and each required member to be possible.
bool JsonMachine::viable_object(int32_t id) {
  return key_start(id) >= 0 && required_possible(id);
}

// Some alternative of each `or` is possible beside what must hold anyway. Alternatives within
// alternatives are taken for possible, for their number has no bound.
bool JsonMachine::alternatives_possible(const std::vector<ExprId>& must,
                                        const std::vector<ExprId>& alternatives) {
  if (splitting_) return true;
  splitting_ = true;
  std::vector<ExprId> rest;
  for (const ExprId literal : must) {
    if (pool_.at(literal).kind != Expr::Kind::kOr) rest.push_back(literal);
  }
  const bool all = std::all_of(alternatives.begin(), alternatives.end(), [&](ExprId either) {
    const std::vector<ExprId> choices = pool_.at(either).children;
    return std::any_of(choices.begin(), choices.end(), [&](ExprId choice) {
      std::vector<ExprId> parts = rest;
      parts.push_back(choice);
      const ExprId both = pool_.make_and(std::move(parts));
      if (both == ExprPool::kFalse) return false;
      const int32_t alone = container(JsonType::kObject, {both});
      return close_outcome(alone) >= 0 || viable_object(alone);
    });
  });
  splitting_ = false;
  return all;
}

bool JsonMachine::required_possible(int32_t id) {
  const std::vector<ExprId> must = conjuncts(id);
  std::vector<int32_t> texts;
  std::vector<ExprId> alternatives;
  for (const ExprId literal : must) {
    const Expr e = pool_.at(literal);
    if (e.kind == Expr::Kind::kOr) {
      alternatives.push_back(literal);
      continue;
    }
    if (e.kind != Expr::Kind::kMembers || pool_.at(e.a).kind != Expr::Kind::kIs) continue;
    if (e.n > 1) return false;
    const int32_t text = pool_.at(e.a).a;
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  if (static_cast<int64_t>(texts.size()) > most_left(id)) return false;
  for (const int32_t text : texts) {
    // The key's member as if it came next.
    int32_t state = key_start(id);
    for (const char c : pool_.text(text)) {
      const auto byte = static_cast<uint8_t>(c);
      // Bytes that strings must escape are taken as possible.
      if (byte < 0x20 || byte == '"' || byte == '\\') {
        state = kUnset;
        break;
      }
      state = strings_.step(state, byte);
      if (state < 0) return false;
      state &= ~StringLexer::kCounts;
    }
    if (state == kUnset) continue;
    const int32_t outcome = strings_.outcome(state, 0);
    if (outcome < 0) return false;
    const int32_t child = object_child(id, outcome, strings_.text_index(state));
    if (!viable_value(children_[static_cast<size_t>(child)].value)) return false;
  }
  return alternatives_possible(must, alternatives);
}

// Goes through items that come out as hoped until the array can be closed.
bool JsonMachine::viable_array(int32_t id) {
  for (int steps = 0; steps < kItemsSimulatedMax; ++steps) {
    if (close_outcome(id) >= 0) return true;
    const int32_t child_id = item_child(id);
    const Child& child = children_[static_cast<size_t>(child_id)];
    if (!viable_value(child.value)) return false;
    if (!child.tracked.empty() || containers_[static_cast<size_t>(id)].unique) return true;
    const int32_t next = next_container(child_id, outcomes_.intern({true}), -1);
    if (next < 0) return false;
    if (next == id) return false;
    id = next;
  }
  return true;
}

}  // namespace lineshaft::decoding
