#include "core/block.h"

#include <algorithm>

namespace lineshaft {
namespace {

BlockHash cut(Sha256& h) {
  BlockHash out;
  const auto digest = h.finish();
  std::copy_n(digest.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

}  // namespace

BlockHash chain_root(const Hash128& model_fingerprint, std::string_view profile,
                     std::string_view kv_type, const Hash128& salt) {
  Sha256 h;
  h.update("lineshaft-kv-1");
  h.update(model_fingerprint.bytes);
  h.update(salt.bytes);
  // Lengths first, so that no two pairs of names run together into the same bytes.
  const uint8_t lengths[2] = {static_cast<uint8_t>(profile.size()),
                              static_cast<uint8_t>(kv_type.size())};
  h.update(lengths);
  h.update(profile);
  h.update(kv_type);
  return cut(h);
}

BlockHash chain_next(const BlockHash& parent, std::span<const TokenId> tokens) {
  Sha256 h;
  h.update(parent.bytes);
  h.update({reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size_bytes()});
  return cut(h);
}

std::vector<BlockHash> hash_blocks(const BlockHash& root, std::span<const TokenId> tokens,
                                   int32_t block_tokens) {
  std::vector<BlockHash> out;
  const size_t size = static_cast<size_t>(block_tokens);
  out.reserve(tokens.size() / size);
  BlockHash parent = root;
  for (size_t i = 0; i + size <= tokens.size(); i += size) {
    parent = chain_next(parent, tokens.subspan(i, size));
    out.push_back(parent);
  }
  return out;
}

}  // namespace lineshaft
