// KV blocks as serving sees them: their size and the chained hash that names their content.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "core/ids.h"

namespace lineshaft {

// Bytes are those of all layers for block_tokens positions; see kv/arena.h for the order inside.
struct KvLayout {
  int32_t block_tokens = 128;
  int64_t block_bytes = 0;
};

// Equal hash means interchangeable bytes.
using BlockHash = Hash128;

// The root of a chain: everything besides the tokens that the bytes of a block depend on.
// `profile` is the numerics profile's name, `kv_type` how K and V are stored ("f16").
BlockHash chain_root(const Hash128& model_fingerprint, std::string_view profile,
                     std::string_view kv_type, const Hash128& salt);

// Hash of the block that holds `tokens` (exactly one block's) after `parent` (or the root).
BlockHash chain_next(const BlockHash& parent, std::span<const TokenId> tokens);

// Hashes of the full blocks of `tokens`: floor(size / block_tokens) entries.
std::vector<BlockHash> hash_blocks(const BlockHash& root, std::span<const TokenId> tokens,
                                   int32_t block_tokens);

}  // namespace lineshaft
