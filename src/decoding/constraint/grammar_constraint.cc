// Constraints over automata whose places are single numbers: grammars and regular expressions.
#include <map>
#include <mutex>

#include "decoding/constraint/constraint.h"
#include "decoding/constraint/mask_walk.h"

namespace lineshaft::decoding {
namespace {

// A regular expression that must match the whole text.
class RegexMachine {
 public:
  static constexpr int32_t kReject = -1;
  explicit RegexMachine(std::shared_ptr<const Nfa> nfa) : dfa_(std::move(nfa), false) {}
  int32_t start() const { return dfa_.start(); }
  int32_t step(int32_t state, uint8_t byte) {
    const int32_t next = dfa_.next(state, byte);
    return next == LazyDfa::kDead ? kReject : next;
  }
  bool can_end(int32_t state) const { return dfa_.accepts(state); }
  size_t memory_bytes() const { return dfa_.memory_bytes(); }

 private:
  LazyDfa dfa_;
};

template <class Machine>
class AutomatonConstraint final : public Constraint {
 public:
  AutomatonConstraint(std::shared_ptr<const TokenTrie> trie, Machine machine,
                      const ConstraintLimits& limits)
      : Constraint(std::move(trie)), limits_(limits), machine_(std::move(machine)) {}

 protected:
  ConstraintState first() const override { return {{machine_.start(), 0, 0}}; }

  bool advance(ConstraintState& state, const std::string& /*text*/, std::string_view token,
               size_t* at) const override {
    const std::scoped_lock lock(mutex_);
    auto here = static_cast<int32_t>(state.parts[0]);
    for (size_t i = 0; i < token.size(); ++i) {
      here = machine_.step(here, static_cast<uint8_t>(token[i]));
      if (here < 0) {
        *at = i;
        return false;
      }
    }
    state.parts[0] = here;
    return true;
  }

  bool can_end(const ConstraintState& state) const override {
    const std::scoped_lock lock(mutex_);
    return machine_.can_end(static_cast<int32_t>(state.parts[0]));
  }

  Status fill(const ConstraintState& state, const std::string& /*text*/,
              std::span<uint64_t> mask) const override {
    const std::scoped_lock lock(mutex_);
    if (machine_.memory_bytes() > limits_.memory_bytes_max) {
      return resource_exhausted("the constraint needs more than {} bytes of tables",
                                limits_.memory_bytes_max);
    }
    const auto here = static_cast<int32_t>(state.parts[0]);
    if (const auto known = masks_.find(here); known != masks_.end()) {
      std::copy(known->second.begin(), known->second.end(), mask.begin());
      return ok_status();
    }
    std::fill(mask.begin(), mask.end(), 0);
    std::string scratch;
    Stepper stepper{machine_};
    walk_tokens(stepper, trie_->all(), here, scratch, mask);
    if (machine_.can_end(here)) {
      for (const TokenId id : trie_->ends()) {
        mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
      }
    }
    if (masks_.size() >= limits_.masks_max) masks_.clear();
    masks_.emplace(here, MaskWords(mask.begin(), mask.end()));
    return ok_status();
  }

 private:
  struct Stepper {
    Machine& machine;
    bool step(int32_t& state, std::string_view text) {
      state = machine.step(state, static_cast<uint8_t>(text.back()));
      return state >= 0;
    }
  };

  ConstraintLimits limits_;
  mutable std::mutex mutex_;
  mutable Machine machine_;
  mutable std::map<int32_t, MaskWords> masks_;
};

}  // namespace

StatusOr<std::shared_ptr<const Constraint>> grammar_constraint(
    std::shared_ptr<const TokenTrie> trie, Grammar grammar, const ConstraintLimits& limits) {
  GrammarMachine machine(std::move(grammar));
  if (machine.start() < 0) return invalid_argument("no text fits the grammar");
  return std::shared_ptr<const Constraint>(std::make_shared<AutomatonConstraint<GrammarMachine>>(
      std::move(trie), std::move(machine), limits));
}

StatusOr<std::shared_ptr<const Constraint>> regex_constraint(
    std::shared_ptr<const TokenTrie> trie, std::string_view pattern,
    const ConstraintLimits& limits) {
  LS_ASSIGN_OR_RETURN(auto nfa, parse_plain_regex(pattern));
  RegexMachine machine(std::move(nfa));
  if (machine.start() == LazyDfa::kDead) return invalid_argument("no text fits the pattern");
  return std::shared_ptr<const Constraint>(std::make_shared<AutomatonConstraint<RegexMachine>>(
      std::move(trie), std::move(machine), limits));
}

}  // namespace lineshaft::decoding
