#include "recipe/tokenizer/added_tokens.h"

#include <algorithm>

#include "recipe/tokenizer/char_class.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

// The code point that ends at byte `end` > 0.
CodePoint code_point_before(std::string_view text, size_t end) {
  const size_t first = end > 4 ? end - 4 : 0;
  for (size_t begin = end - 1;; --begin) {
    const CodePoint c = decode_utf8(text.data() + begin, text.data() + end);
    if (begin + c.length == end && c.value != kInvalidByte) return c;
    if (begin == first) return {kInvalidByte, 1};
  }
}

CodePoint code_point_at(std::string_view text, size_t begin) {
  return decode_utf8(text.data() + begin, text.data() + text.size());
}

// \w of the reference: letters, marks, decimal digits and connectors.
bool is_word(CodePoint c) {
  if (c.value == '_' || c.value == kInvalidByte) return c.value == '_';
  return CharClassTable::get().of(c.value) & (kLetter | kMark | kNumber);
}

bool is_space(CodePoint c) { return CharClassTable::get().of(c.value) & kSpace; }

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens)
    : tokens_(tokens), token_at_(1, -1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.empty()) continue;
    starts_[static_cast<uint8_t>(content[0])] = true;
    uint32_t node = 0;
    for (const char c : content) {
      const auto fresh = static_cast<uint32_t>(token_at_.size());
      if (edges_.insert(node, static_cast<uint8_t>(c), fresh, 0)) {
        token_at_.push_back(-1);
        node = fresh;
      } else {
        node = edges_.find(node, static_cast<uint8_t>(c))->first;
      }
    }
    token_at_[node] = static_cast<int32_t>(i);
  }
}

AddedTokens::Longest AddedTokens::longest_at(std::string_view text, size_t begin) const {
  Longest best;
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto* edge = edges_.find(node, static_cast<uint8_t>(text[i]));
    if (edge == nullptr) break;
    node = edge->first;
    if (token_at_[node] >= 0) best = {i + 1, token_at_[node]};
  }
  return best;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<uint8_t>(text[begin])]) continue;
    const Longest longest = longest_at(text, begin);
    if (longest.token < 0) continue;
    const AddedToken& token = tokens_[longest.token];
    Match match{begin, longest.end, token.id};
    if (token.single_word &&
        ((begin > 0 && is_word(code_point_before(text, begin))) ||
         (match.end < text.size() && is_word(code_point_at(text, match.end))))) {
      begin = longest.end - 1;  // the reference goes on behind a token that it discards
      continue;
    }
    while (token.lstrip && match.begin > from) {
      const CodePoint c = code_point_before(text, match.begin);
      if (!is_space(c)) break;
      match.begin = std::max(from, match.begin - c.length);
    }
    while (token.rstrip && match.end < text.size()) {
      const CodePoint c = code_point_at(text, match.end);
      if (!is_space(c)) break;
      match.end += c.length;
    }
    return match;
  }
  return std::nullopt;
}

}  // namespace lineshaft::recipe
