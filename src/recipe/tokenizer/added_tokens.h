// AddedTokens: tokens that are found in text as they stand, before any merge: the leftmost first,
// the longest of those. Knows no merges and does not decide which tokens may be found.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "recipe/tokenizer/tables.h"

namespace lineshaft::recipe {

// One entry of added_tokens in a tokenizer.json.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool normalized = false;   // looked for in normalized text, after those that are not
  bool lstrip = false;       // takes the whitespace before it
  bool rstrip = false;       // takes the whitespace after it
  bool single_word = false;  // not next to a word character
};

class AddedTokens {
 public:
  // Empty contents are skipped; of equal contents the last counts.
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  struct Match {
    size_t begin = 0;  // bytes, with stripped whitespace
    size_t end = 0;
    TokenId id = 0;
  };

  // The next token at or after byte `from`; whitespace before `from` is not taken. Time is bounded
  // by bytes looked at times the longest token. Thread-safe.
  std::optional<Match> find(std::string_view text, size_t from) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Longest {
    size_t end = 0;
    int32_t token = -1;
  };
  Longest longest_at(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> starts_{};  // bytes that begin a token
  PairTable edges_;                 // trie: (node, byte) -> (node, -); node 0 is the root
  std::vector<int32_t> token_at_;   // node -> index into tokens_, -1: none
};

}  // namespace lineshaft::recipe
