#include "decoding/constraint/constraint.h"

#include "base/check.h"

namespace lineshaft::decoding {

Matcher Constraint::start() const { return Matcher(shared_from_this()); }

Matcher::Matcher(std::shared_ptr<const Constraint> constraint)
    : constraint_(std::move(constraint)), state_(constraint_->first()) {}

Status Matcher::fill_mask(std::span<uint64_t> mask) const {
  LS_CHECK(mask.size() == constraint_->trie_->words());
  if (ended_) {
    std::fill(mask.begin(), mask.end(), 0);
    return ok_status();
  }
  return constraint_->fill(state_, text_, mask);
}

bool Matcher::accept(TokenId token) {
  const TokenTrie& trie = *constraint_->trie_;
  if (ended_ || token < 0 || token >= trie.vocab_size()) return false;
  const Step before{state_, static_cast<uint32_t>(text_.size()), false};
  if (trie.is_end(token)) {
    if (!can_end()) return false;
    ended_ = true;
  } else {
    size_t at = 0;
    if (!trie.is_text(token)) return false;
    if (!constraint_->advance(state_, text_, trie.bytes(token), &at)) return false;
    text_ += trie.bytes(token);
  }
  history_.push_back(before);
  return true;
}

bool Matcher::accept_bytes(std::string_view bytes, size_t* at) {
  const Step before{state_, static_cast<uint32_t>(text_.size()), false};
  if (ended_ || !constraint_->advance(state_, text_, bytes, at)) return false;
  text_ += bytes;
  history_.push_back(before);
  return true;
}

bool Matcher::can_end() const { return ended_ || constraint_->can_end(state_); }

void Matcher::rollback(int n) {
  LS_CHECK(n >= 0 && n <= accepted(), "{} of {}", n, accepted());
  if (n == 0) return;
  const Step& to = history_[history_.size() - static_cast<size_t>(n)];
  state_ = to.state;
  text_.resize(to.text_bytes);
  ended_ = to.ended;
  history_.resize(history_.size() - static_cast<size_t>(n));
}

}  // namespace lineshaft::decoding
