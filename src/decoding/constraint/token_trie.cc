#include "decoding/constraint/token_trie.h"

#include <algorithm>

#include "base/utf8.h"

namespace lineshaft::decoding {
namespace {

constexpr size_t kTokenBytesMax = 255;

bool is_free_text(const std::string& bytes) {
  const bool plain = std::none_of(bytes.begin(), bytes.end(), [](char c) {
    return c == '"' || c == '\\' || static_cast<uint8_t>(c) < 0x20;
  });
  return plain && valid_utf8_prefix(bytes) == bytes.size();
}

}  // namespace

TokenTrie::TokenTrie(const Vocab& vocab)
    : vocab_size_(vocab.size()), bytes_(vocab.bytes), ends_(vocab.end_of_generation) {
  std::vector<std::pair<std::string, TokenId>> texts;
  std::vector<std::pair<std::string, TokenId>> special;
  std::vector<std::pair<size_t, TokenId>> free;  // code points, token
  is_text_.resize(bytes_.size());
  for (TokenId id = 0; id < vocab_size_; ++id) {
    const auto i = static_cast<size_t>(id);
    const TokenKind kind = vocab.kinds[i];
    const bool text = kind == TokenKind::kNormal || kind == TokenKind::kByte ||
                      kind == TokenKind::kAdded;
    if (!text || bytes_[i].empty() || bytes_[i].size() > kTokenBytesMax || is_end(id)) continue;
    is_text_[i] = true;
    texts.emplace_back(bytes_[i], id);
    if (is_free_text(bytes_[i])) {
      free.emplace_back(count_code_points(bytes_[i]), id);
    } else {
      special.emplace_back(bytes_[i], id);
      note_quoted(bytes_[i]);
    }
  }
  all_ = build(std::move(texts));
  special_ = build(std::move(special));
  size_t longest = 0;
  for (const auto& [length, id] : free) longest = std::max(longest, length);
  free_text_.assign(longest + 1, MaskWords(words(), 0));
  std::sort(free.begin(), free.end());
  size_t at = 0;
  for (size_t length = 1; length <= longest; ++length) {
    free_text_[length] = free_text_[length - 1];
    for (; at < free.size() && free[at].first == length; ++at) {
      const auto id = static_cast<size_t>(free[at].second);
      free_text_[length][id / 64] |= uint64_t{1} << (id % 64);
    }
  }
}

bool TokenTrie::is_end(TokenId id) const {
  return std::find(ends_.begin(), ends_.end(), id) != ends_.end();
}

const MaskWords& TokenTrie::free_text(int64_t code_points) const {
  const auto longest = static_cast<int64_t>(free_text_.size()) - 1;
  return free_text_[static_cast<size_t>(std::clamp<int64_t>(code_points, 0, longest))];
}

void TokenTrie::note_quoted(const std::string& bytes) {
  size_t open = bytes.find('"');
  while (open != std::string::npos) {
    const size_t close = bytes.find('"', open + 1);
    if (close == std::string::npos) return;
    const std::string inside = bytes.substr(open + 1, close - open - 1);
    // An escape that ends at the second quote leaves it unclear what is between.
    if (inside.find('\\') != std::string::npos && inside.back() != '\\') quoted_escape_ = true;
    quoted_.insert(inside);
    open = close;
  }
}

TokenTrie::Tree TokenTrie::build(std::vector<std::pair<std::string, TokenId>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  Tree tree;
  std::vector<size_t> open;  // nodes from the root to the last one
  const auto close_to = [&](size_t depth) {
    while (open.size() > depth) {
      tree.nodes[open.back()].end = static_cast<int32_t>(tree.nodes.size());
      open.pop_back();
    }
  };
  std::string_view last;
  for (const auto& [bytes, id] : tokens) {
    size_t shared = 0;
    while (shared < last.size() && shared < bytes.size() && last[shared] == bytes[shared]) ++shared;
    close_to(shared);
    for (size_t i = shared; i < bytes.size(); ++i) {
      const auto at = static_cast<int32_t>(tree.tokens.size());
      open.push_back(tree.nodes.size());
      const auto byte = static_cast<uint8_t>(bytes[i]);
      tree.nodes.push_back({byte, static_cast<uint8_t>(i + 1), 0, at, at});
    }
    tree.tokens.push_back(id);
    tree.nodes[open.back()].tokens_end = static_cast<int32_t>(tree.tokens.size());
    last = bytes;
  }
  close_to(0);
  return tree;
}

}  // namespace lineshaft::decoding
