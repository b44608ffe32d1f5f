// Constraint: a compiled demand on an answer's text, and Matcher, one answer's place in it.
//
// A Constraint is made once a content and shared by all requests that ask for it; its tables grow
// as answers meet new places, up to a budget, and are guarded by one lock. A Matcher belongs to one
// sequence: it says which tokens may come (fill_mask), takes tokens (accept), goes back (rollback)
// and splits (fork). The end of the demanded text is the end of the answer: then only the
// vocabulary's end tokens are allowed. Must not know requests or logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "decoding/constraint/grammar.h"
#include "decoding/constraint/regex.h"
#include "decoding/constraint/schema.h"
#include "decoding/constraint/token_trie.h"

namespace lineshaft::decoding {

// The place of an answer in its demand, as the automaton behind it names it.
struct ConstraintState {
  std::array<int64_t, 3> parts{};
  bool operator==(const ConstraintState&) const = default;
};

struct ConstraintLimits {
  size_t memory_bytes_max = size_t{256} << 20;  // of the tables of one constraint
  size_t masks_max = 2048;                      // kept at once
};

class Matcher;

class Constraint : public std::enable_shared_from_this<Constraint> {
 public:
  virtual ~Constraint() = default;
  // The tokens' trie must be of the model's vocabulary.
  Matcher start() const;

 protected:
  friend class Matcher;
  explicit Constraint(std::shared_ptr<const TokenTrie> trie) : trie_(std::move(trie)) {}

  virtual ConstraintState first() const = 0;
  // All of `token` behind `text`; false (state unchanged) at the first byte that can't come, whose
  // place in the token is then *at.
  virtual bool advance(ConstraintState& state, const std::string& text, std::string_view token,
                       size_t* at) const = 0;
  virtual bool can_end(const ConstraintState& state) const = 0;
  // Nothing but the end may follow.
  virtual Status fill(const ConstraintState& state, const std::string& text,
                      std::span<uint64_t> mask) const = 0;

  std::shared_ptr<const TokenTrie> trie_;
};

// Owns its constraint jointly. One thread at a time; different matchers of one constraint may be
// used by different threads.
class Matcher {
 public:
  // Sets mask bit t for each token t that may come next and clears the others. mask: words() of the
  // trie. kResourceExhausted when the constraint's budget ends: the answer must end too.
  Status fill_mask(std::span<uint64_t> mask) const;
  // Takes a token; false, changing nothing, when it may not come. End tokens end the answer.
  bool accept(TokenId token);
  // Takes text without tokens; false at the byte *at (of `bytes`) that may not come.
  bool accept_bytes(std::string_view bytes, size_t* at);
  // The answer may end here.
  bool can_end() const;
  // An end token was taken.
  bool ended() const { return ended_; }
  // Takes back the last n accepted tokens (n <= accepted()).
  void rollback(int n);
  int accepted() const { return static_cast<int>(history_.size()); }
  Matcher fork() const { return *this; }

 private:
  friend class Constraint;
  struct Step {
    ConstraintState state;
    uint32_t text_bytes = 0;
    bool ended = false;
  };

  explicit Matcher(std::shared_ptr<const Constraint> constraint);

  std::shared_ptr<const Constraint> constraint_;
  ConstraintState state_;
  std::string text_;
  bool ended_ = false;
  std::vector<Step> history_;  // before each accepted token
};

// A JSON document that the program's schema allows. kInvalidArgument when there is none.
StatusOr<std::shared_ptr<const Constraint>> json_constraint(
    std::shared_ptr<const TokenTrie> trie, std::shared_ptr<const SchemaProgram> program,
    const JsonLayout& layout = {}, const ConstraintLimits& limits = {});

// A text of the grammar.
StatusOr<std::shared_ptr<const Constraint>> grammar_constraint(
    std::shared_ptr<const TokenTrie> trie, Grammar grammar, const ConstraintLimits& limits = {});

// A text that the whole of the regular expression matches.
StatusOr<std::shared_ptr<const Constraint>> regex_constraint(
    std::shared_ptr<const TokenTrie> trie, std::string_view pattern,
    const ConstraintLimits& limits = {});

}  // namespace lineshaft::decoding
