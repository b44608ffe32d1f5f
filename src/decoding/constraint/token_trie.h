// TokenTrie: the bytes of a vocabulary's tokens as a tree in depth-first order, and the sets of
// tokens that strings take whole.
//
// Immutable after it was built; shared by all constraints of a model. Must not know grammars.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/vocab.h"

namespace lineshaft::decoding {

// One bit a token: bit id % 64 of word id / 64.
using MaskWords = std::vector<uint64_t>;

class TokenTrie {
 public:
  struct Node {
    uint8_t byte = 0;
    uint8_t depth = 0;       // 1: the first byte; tokens longer than 255 bytes are left out
    int32_t end = 0;         // index behind the last node of the subtree
    int32_t tokens_begin = 0;  // of the tokens that end here, in tokens()
    int32_t tokens_end = 0;
  };
  struct Tree {
    std::vector<Node> nodes;        // in depth-first order
    std::vector<TokenId> tokens;
  };

  // Control, unknown and unused tokens never stand for text and are left out.
  explicit TokenTrie(const Vocab& vocab);

  const Tree& all() const { return all_; }
  // The tokens that free_text() has not.
  const Tree& special() const { return special_; }
  // Tokens that are whole code points without quote, backslash and control characters, of at most
  // `code_points` code points. What a JSON string takes wherever nothing else binds it.
  const MaskWords& free_text(int64_t code_points) const;

  int32_t vocab_size() const { return vocab_size_; }
  size_t words() const { return (static_cast<size_t>(vocab_size_) + 63) / 64; }
  const std::string& bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }
  bool is_text(TokenId id) const { return is_text_[static_cast<size_t>(id)]; }
  bool is_end(TokenId id) const;
  std::span<const TokenId> ends() const { return ends_; }
  // True when some token holds `key` between quotes, or may (an escape in quotes).
  bool quotes(const std::string& key) const { return quoted_.contains(key) || quoted_escape_; }

 private:
  static Tree build(std::vector<std::pair<std::string, TokenId>> tokens);
  void note_quoted(const std::string& bytes);

  int32_t vocab_size_ = 0;
  std::vector<std::string> bytes_;
  std::vector<bool> is_text_;
  std::vector<TokenId> ends_;
  Tree all_;
  Tree special_;
  std::vector<MaskWords> free_text_;  // by code points; the last holds them all
  std::unordered_set<std::string> quoted_;
  bool quoted_escape_ = false;
};

}  // namespace lineshaft::decoding
