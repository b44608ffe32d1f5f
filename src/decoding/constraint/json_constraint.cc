// Constraint over JsonMachine, with masks kept by what they depend on.
#include <algorithm>
#include <map>
#include <mutex>

#include "decoding/constraint/constraint.h"
#include "decoding/constraint/mask_walk.h"

namespace lineshaft::decoding {
namespace {

using State = JsonMachine::State;

// Beyond this many code points of room no token can overrun it.
constexpr int64_t kRoomMax = 256;
constexpr size_t kLevelsMax = 4;  // of frames that a kept mask may depend on

ConstraintState pack(const State& s) {
  return {{static_cast<int64_t>(s.frame) << 8 | static_cast<int64_t>(s.mode),
           static_cast<int64_t>(s.lex) << 32 | static_cast<uint32_t>(s.count), s.start}};
}

State unpack(const ConstraintState& c) {
  State s;
  s.frame = static_cast<int32_t>(c.parts[0] >> 8);
  s.mode = static_cast<JsonMachine::Mode>(c.parts[0] & 0xff);
  s.lex = static_cast<int32_t>(c.parts[1] >> 32);
  s.count = static_cast<int32_t>(c.parts[1] & 0xffffffff);
  s.start = static_cast<uint32_t>(c.parts[2]);
  return s;
}

class JsonConstraint final : public Constraint {
 public:
  JsonConstraint(std::shared_ptr<const TokenTrie> trie,
                 std::shared_ptr<const SchemaProgram> program, const JsonLayout& layout,
                 const ConstraintLimits& limits)
      : Constraint(std::move(trie)), limits_(limits), machine_(std::move(program), layout) {}

  bool satisfiable() {
    const std::scoped_lock lock(mutex_);
    return machine_.satisfiable();
  }

 protected:
  ConstraintState first() const override { return pack(machine_.start()); }

  bool advance(ConstraintState& packed, const std::string& text, std::string_view token,
               size_t* at) const override {
    const std::scoped_lock lock(mutex_);
    State state = unpack(packed);
    scratch_ = text;
    for (size_t i = 0; i < token.size(); ++i) {
      scratch_ += token[i];
      if (!machine_.step(state, scratch_)) {
        *at = i;
        return false;
      }
    }
    packed = pack(state);
    return true;
  }

  bool can_end(const ConstraintState& state) const override {
    const std::scoped_lock lock(mutex_);
    return machine_.can_end(unpack(state));
  }

  Status fill(const ConstraintState& packed, const std::string& text,
              std::span<uint64_t> mask) const override;

 private:
  struct Key {
    std::array<int32_t, 3> place{};  // mode, lex, what counts of the count
    std::array<int32_t, kLevelsMax> contents{};
    auto operator<=>(const Key&) const = default;
  };

  int32_t count_class(const State& state) const;
  void compute(const State& state, const std::string& text, std::span<uint64_t> mask) const;

  ConstraintLimits limits_;
  mutable std::mutex mutex_;
  mutable JsonMachine machine_;
  mutable std::string scratch_;
  mutable std::map<Key, MaskWords> masks_;
};

int32_t JsonConstraint::count_class(const State& state) const {
  switch (state.mode) {
    case JsonMachine::Mode::kString:
    case JsonMachine::Mode::kKey:
      if (!machine_.count_matters(state)) return 0;
      return state.count;
    case JsonMachine::Mode::kNumber:
      return state.count < 100 ? 0 : state.count;
    default:
      return state.count;
  }
}

Status JsonConstraint::fill(const ConstraintState& packed, const std::string& text,
                            std::span<uint64_t> mask) const {
  const std::scoped_lock lock(mutex_);
  if (machine_.memory_bytes() > limits_.memory_bytes_max) {
    return resource_exhausted("the constraint needs more than {} bytes of tables",
                              limits_.memory_bytes_max);
  }
  const State state = unpack(packed);
  Key key{{static_cast<int32_t>(state.mode), state.lex, count_class(state)}, {}};
  key.contents.fill(-1);
  // Masks that depend on the fewest frames first.
  int32_t frame = state.frame;
  for (size_t level = 0; level < kLevelsMax && frame >= 0; ++level) {
    key.contents[level] = machine_.content(frame);
    const auto found = masks_.find(key);
    if (found != masks_.end() && !machine_.depends_on_seen(state, text, [&](const auto& seen) {
          return trie_->quotes(seen);
        })) {
      std::copy(found->second.begin(), found->second.end(), mask.begin());
      return ok_status();
    }
    frame = machine_.parent(frame);
  }
  machine_.reset_lowest();
  compute(state, text, mask);
  const int touched = machine_.depth(state.frame) -
                      std::max(std::min(machine_.lowest(), machine_.depth(state.frame)), 0) + 1;
  const bool seen = machine_.depends_on_seen(state, text, [&](const auto& key_text) {
    return trie_->quotes(key_text);
  });
  if (seen || touched > static_cast<int>(kLevelsMax)) return ok_status();
  if (masks_.size() >= limits_.masks_max) masks_.clear();
  key.contents.fill(-1);
  frame = state.frame;
  for (int level = 0; level < touched; ++level) {
    if (machine_.reads_text(frame)) return ok_status();
    key.contents[static_cast<size_t>(level)] = machine_.content(frame);
    frame = machine_.parent(frame);
  }
  masks_.emplace(key, MaskWords(mask.begin(), mask.end()));
  return ok_status();
}

void JsonConstraint::compute(const State& state, const std::string& text,
                             std::span<uint64_t> mask) const {
  scratch_ = text;
  machine_.set_trial(true);
  if (machine_.free_text(state)) {
    const MaskWords& whole = trie_->free_text(
        std::min<int64_t>(machine_.free_text_room(state), kRoomMax));
    std::copy(whole.begin(), whole.end(), mask.begin());
    walk_tokens(machine_, trie_->special(), state, scratch_, mask);
  } else {
    std::fill(mask.begin(), mask.end(), 0);
    walk_tokens(machine_, trie_->all(), state, scratch_, mask);
  }
  machine_.set_trial(false);
  if (machine_.can_end(state)) {
    for (const TokenId id : trie_->ends()) {
      mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
    }
  }
}

}  // namespace

StatusOr<std::shared_ptr<const Constraint>> json_constraint(
    std::shared_ptr<const TokenTrie> trie, std::shared_ptr<const SchemaProgram> program,
    const JsonLayout& layout, const ConstraintLimits& limits) {
  auto made = std::make_shared<JsonConstraint>(std::move(trie), std::move(program), layout, limits);
  if (!made->satisfiable()) return invalid_argument("no document fulfils the schema");
  return std::shared_ptr<const Constraint>(std::move(made));
}

}  // namespace lineshaft::decoding
