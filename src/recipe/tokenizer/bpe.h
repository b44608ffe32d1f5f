// Bpe: pieces of text -> token ids by byte-pair merges (Sennrich, Haddow, Birch 2016), on bytes
// (GPT-2) or on characters with bytes as the fallback (SentencePiece). Knows no pre-tokenizer, no
// added tokens and no control tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "recipe/tokenizer/tables.h"

namespace lineshaft::recipe {

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

// What Bpe is built from. Ids are not negative unless said so.
struct BpeData {
  bool byte_level = true;                // symbols are bytes; else characters
  std::array<TokenId, 256> byte_ids{};   // byte-level or fallback token of each byte, -1: none
  std::vector<std::pair<uint32_t, TokenId>> char_ids;  // code point -> id (characters only)
  TokenId unknown = -1;                  // for what has no symbol; -1: it is dropped
  bool fuse_unknown = false;             // neighbouring unknowns become one
  std::vector<Merge> merges;             // best first; of equal pairs the first counts
};

class Bpe {
 public:
  explicit Bpe(const BpeData& data);

  // Buffers of one thread; keep one over many calls to save allocations.
  class Scratch;

  // Whole pieces that are taken at once without merges, whatever the merges would give (Llama 3's
  // ignore_merges). `strings` must outlive the Bpe.
  void set_whole_pieces(StringTable table) { whole_pieces_ = std::move(table); }

  // Appends the ids of one piece (any bytes). Of all pairs the one with the lowest rank merges
  // first, the leftmost of equals. O(n log n) in the bytes of the piece. Thread-safe.
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  void symbols_of(std::string_view piece, std::vector<TokenId>& symbols) const;
  void push_unknown(bool& was_unknown, std::vector<TokenId>& symbols) const;
  void merge_short(Scratch& scratch, std::vector<TokenId>& out) const;
  void merge_long(Scratch& scratch, std::vector<TokenId>& out) const;

  bool byte_level_;
  std::array<TokenId, 256> byte_ids_;
  PairTable char_ids_;   // (code point, 0) -> (id, -)
  TokenId unknown_;
  bool fuse_unknown_;
  PairTable merges_;     // (left, right) -> (rank, result)
  std::optional<StringTable> whole_pieces_;
};

class Bpe::Scratch {
 private:
  friend class Bpe;

  struct Candidate {
    uint32_t rank;
    uint32_t left;    // node index
    TokenId result;
    // Of equal ranks the leftmost is the best; std::push_heap keeps the greatest on top.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  struct Node {
    TokenId id;       // -1: merged into its left neighbour
    uint32_t previous;
    uint32_t next;
  };

  std::vector<TokenId> symbols_;
  std::vector<uint32_t> ranks_;
  std::vector<TokenId> results_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace lineshaft::recipe
