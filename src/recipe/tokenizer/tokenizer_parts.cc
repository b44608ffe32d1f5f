#include "recipe/tokenizer/tokenizer_parts.h"

#include <algorithm>
#include <set>

#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

// Control tokens that end a turn in the model families we serve; files name one or two at most.
constexpr std::string_view kEndNames[] = {
    "<|im_end|>",    "<|endoftext|>",    "<|eot_id|>", "<|eom_id|>",
    "<|end_of_text|>", "<end_of_turn>", "<eos>",      "<｜end▁of▁sentence｜>",
};

constexpr size_t kAddedBytesMax = size_t{1} << 20;

void find_end_of_generation(Vocab& vocab) {
  std::set<TokenId> ends(vocab.end_of_generation.begin(), vocab.end_of_generation.end());
  if (vocab.eos >= 0) ends.insert(vocab.eos);
  for (TokenId id = 0; id < vocab.size(); ++id) {
    if (vocab.kinds[id] != TokenKind::kControl) continue;
    const auto* end = std::end(kEndNames);
    if (std::find(std::begin(kEndNames), end, vocab.bytes[id]) != end) ends.insert(id);
  }
  vocab.end_of_generation.assign(ends.begin(), ends.end());
}

class Fingerprint {
 public:
  template <typename T>
  void add(T value) {
    buffer_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    if (buffer_.size() > (1u << 16)) flush();
  }
  void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    buffer_ += text;
  }
  Hash128 finish() {
    flush();
    Hash128 hash;
    std::copy_n(sha_.finish().begin(), hash.bytes.size(), hash.bytes.begin());
    return hash;
  }

 private:
  void flush() {
    sha_.update(buffer_);
    buffer_.clear();
  }
  Sha256 sha_;
  std::string buffer_;
};

Hash128 fingerprint_of(const TokenizerParts& parts) {
  Fingerprint f;
  const Vocab& vocab = parts.vocab;
  f.add(std::string_view("lineshaft tokenizer 1"));
  for (TokenId id = 0; id < vocab.size(); ++id) {
    f.add(std::string_view(vocab.bytes[id]));
    f.add(vocab.kinds[id]);
  }
  f.add(vocab.bos);
  f.add(vocab.eos);
  f.add(vocab.add_bos);
  for (const TokenId id : vocab.end_of_generation) f.add(id);
  static_assert(sizeof(Merge) == 3 * sizeof(TokenId));
  const auto& merges = parts.bpe.merges;
  f.add(std::string_view(reinterpret_cast<const char*>(merges.data()),
                         merges.size() * sizeof(Merge)));
  f.add(parts.bpe.byte_level);
  f.add(parts.normalizer);
  f.add(parts.pre.name());
  f.add(parts.ignore_merges);
  f.add(parts.space_prefix);
  return f.finish();
}

}  // namespace

Status finish_parts(TokenizerParts& parts) {
  size_t added_bytes = 0;
  for (const AddedToken& token : parts.added) added_bytes += token.content.size();
  if (added_bytes > kAddedBytesMax) {
    return out_of_range("the tokenizer's added tokens have {} bytes; at most {} are supported",
                        added_bytes, kAddedBytesMax);
  }
  const auto is_control = [&](TokenId id) {
    return id >= 0 && parts.vocab.kinds[id] == TokenKind::kControl;
  };
  auto& merges = parts.bpe.merges;
  std::erase_if(merges, [&](const Merge& merge) {
    return is_control(merge.left) || is_control(merge.right) || is_control(merge.result);
  });
  for (TokenId& id : parts.bpe.byte_ids) {
    if (is_control(id)) id = -1;
  }
  std::erase_if(parts.bpe.char_ids, [&](const auto& entry) { return is_control(entry.second); });
  find_end_of_generation(parts.vocab);
  parts.vocab.fingerprint = fingerprint_of(parts);
  return ok_status();
}

bool bytes_of_alphabet(std::string_view spelled, std::string& bytes) {
  bytes.clear();
  const char* p = spelled.data();
  const char* end = p + spelled.size();
  while (p < end) {
    const CodePoint c = decode_utf8(p, end);
    p += c.length;
    // Printable bytes stand for themselves; the others, in ascending order, for U+0100 onwards
    // (GPT-2's bytes_to_unicode): 0-32, 127-160, 173.
    if ((c.value >= 33 && c.value <= 126) || (c.value >= 161 && c.value <= 255 && c.value != 173)) {
      bytes.push_back(static_cast<char>(c.value));
      continue;
    }
    if (c.value < 0x100 || c.value > 0x143) return false;
    const uint32_t index = c.value - 0x100;
    bytes.push_back(static_cast<char>(index <= 32 ? index : index <= 66 ? index + 94 : 173));
  }
  return true;
}

int byte_of_fallback(std::string_view spelled) {
  if (spelled.size() != 6 || !spelled.starts_with("<0x") || spelled[5] != '>') return -1;
  int value = 0;
  for (const char c : spelled.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'A' && c <= 'F')) return -1;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}

std::string bars_to_spaces(std::string_view spelled) {
  std::string out;
  size_t from = 0;
  size_t at = 0;
  while ((at = spelled.find(kBar, from)) != std::string_view::npos) {
    out += spelled.substr(from, at - from);
    out += ' ';
    from = at + kBar.size();
  }
  out += spelled.substr(from);
  return out;
}

void split_at_bars(const std::vector<std::string>& spelled, const std::vector<Merge>& merges,
                   PreTokenizer& pre) {
  std::array<bool, 256> glued{};
  for (const Merge& merge : merges) {
    const std::string& text = spelled[merge.result];
    for (size_t at = text.find(kBar, 1); at != std::string::npos; at = text.find(kBar, at + 1)) {
      glued[static_cast<uint8_t>(text[at - 1])] = true;
    }
  }
  pre.set_bar_split(glued);
}

}  // namespace lineshaft::recipe
