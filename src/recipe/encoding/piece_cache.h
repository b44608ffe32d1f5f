// PieceCache: the tokens of pieces that were encoded lately. A conversation that comes back with
// one more turn is made of the same pieces and a new one: only that is tokenized. Knows no
// conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "recipe/encoding/pieces.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

// Bounded: what was used longest ago goes first. Any thread.
class PieceCache {
 public:
  explicit PieceCache(std::shared_ptr<const Tokenizer> tokenizer,
                      size_t bytes_max = size_t{32} << 20);

  // What encode_pieces() gives, with its errors.
  StatusOr<std::vector<TokenId>> encode(const std::vector<Piece>& pieces);

  // Of texts and tokens that are kept.
  size_t bytes() const;

 private:
  struct Entry {
    std::string text;
    std::vector<TokenId> tokens;
  };
  using Entries = std::list<std::shared_ptr<const Entry>>;  // the one used last in front

  std::shared_ptr<const Entry> encoded(const std::string& text);
  std::shared_ptr<const Entry> find(uint64_t hash, std::string_view text);
  void insert(uint64_t hash, const std::shared_ptr<const Entry>& entry);

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const size_t bytes_max_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_map<uint64_t, Entries::iterator> places_;  // by the hash of the text
  size_t bytes_ = 0;
};

}  // namespace lineshaft::recipe
