// TokenizerParts: what every source of a tokenizer is turned into, and what a Tokenizer is made of.
// Inside this folder only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/vocab.h"
#include "recipe/tokenizer/added_tokens.h"
#include "recipe/tokenizer/bpe.h"
#include "recipe/tokenizer/pretokenize.h"

namespace lineshaft::recipe {

enum class Normalizer : uint8_t {
  kNone,
  kNfc,         // Unicode normalization form C
  kSpaceToBar,  // " " -> U+2581
};

inline constexpr std::string_view kBar = "\u2581";

struct TokenizerParts {
  Vocab vocab;  // without fingerprint and end_of_generation: finish_parts() adds them
  BpeData bpe;
  Normalizer normalizer = Normalizer::kNone;
  PreTokenizer pre;
  std::vector<AddedToken> added;  // the vocabulary's kind tells which ones are control tokens
  bool ignore_merges = false;     // a piece that is a token is taken at once
  bool space_prefix = false;      // text after the start or an added token begins with U+2581
  std::vector<std::string> warnings;
};

// Makes the parts safe and whole: no merge and no symbol yields a control token, the tokens that
// end generation are known, the fingerprint covers everything that ids depend on. kOutOfRange when
// the added tokens have more than 1 MiB in all (released models have under 100 KiB): the tries that
// find them take about a hundred times that.
Status finish_parts(TokenizerParts& parts);

// Bytes of the GPT-2 byte alphabet: `spelled` back to what it stands for; false when a character
// is not of the alphabet.
bool bytes_of_alphabet(std::string_view spelled, std::string& bytes);

// The byte that "<0xHH>" stands for, -1 for other texts.
int byte_of_fallback(std::string_view spelled);

// `spelled` with U+2581 as space.
std::string bars_to_spaces(std::string_view spelled);

// Marks the bytes that stand before a U+2581 inside one of `results`: a piece may not end there.
void split_at_bars(const std::vector<std::string>& spelled, const std::vector<Merge>& merges,
                   PreTokenizer& pre);

}  // namespace lineshaft::recipe
