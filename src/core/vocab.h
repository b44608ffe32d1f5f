// Vocab: the model's tokens as bytes. Immutable after loading; shared by many readers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "core/ids.h"

namespace lineshaft {

enum class TokenKind : uint8_t {
  kNormal,
  kByte,      // stands for one byte (byte fallback)
  kControl,   // structure of the dialogue; text can never become one in plain mode
  kAdded,     // user-defined: matched in text before the merges, even in plain mode
  kUnknown,
  kUnused,
};

struct Vocab {
  std::vector<std::string> bytes;   // what each token decodes to; control tokens: their name
  std::vector<TokenKind> kinds;     // same size
  TokenId bos = -1;                 // -1: none
  TokenId eos = -1;
  std::vector<TokenId> end_of_generation;  // eos, end of turn, …: ascending
  bool add_bos = false;             // raw prompts begin with bos
  Hash128 fingerprint{};            // of all of the above and the merges

  int32_t size() const { return static_cast<int32_t>(bytes.size()); }
};

}  // namespace lineshaft
