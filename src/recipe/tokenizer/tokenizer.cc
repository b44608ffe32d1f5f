#include "recipe/tokenizer/tokenizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "base/utf8.h"
#include "recipe/tokenizer/added_tokens.h"
#include "recipe/tokenizer/bpe.h"
#include "recipe/tokenizer/tokenizer_parts.h"

namespace lineshaft::recipe {
namespace {

// Short pieces of one text and where in the output their ids stand already. Direct-mapped: a
// newer piece takes the place of an older one.
class PieceMemo {
 public:
  static constexpr size_t kBytesMax = 16;

  struct Entry {
    std::array<uint64_t, 2> bytes{};  // padded with zeros
    uint32_t begin = 0;               // into the output
    uint16_t count = 0;
    uint16_t length = 0;              // of the piece; 0: empty entry
  };

  // One entry for eight bytes of text, at most 768 KiB: about what a core's second cache holds.
  explicit PieceMemo(size_t text_bytes)
      : entries_(std::bit_ceil(std::clamp<size_t>(text_bytes / 8, 16, 32768))),
        shift_(64 - std::bit_width(entries_.size() - 1)) {}

  // `key` becomes the piece's bytes and length (1 to kBytesMax). The entry that is its, or whose
  // place it will take.
  Entry& locate(std::string_view piece, Entry& key) {
    std::memcpy(key.bytes.data(), piece.data(), piece.size());
    key.length = static_cast<uint16_t>(piece.size());
    const uint64_t a = key.bytes[0] * 0x9e3779b97f4a7c15ull;
    const uint64_t b = (key.bytes[1] + key.length) * 0xbf58476d1ce4e5b9ull;
    return entries_[((a ^ (a >> 32)) + (b ^ (b >> 29))) * 0x94d049bb133111ebull >> shift_];
  }

 private:
  std::vector<Entry> entries_;
  int shift_;
};

// True for a text of code points below U+0300 only, which NFC never changes.
bool has_no_marks(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<uint8_t>(c) >= 0xcc; });
}

// Form C as the reference runtime has it: its tables are of Unicode 9, so younger characters
// neither compose nor move. Lives as long as the process; null when ICU's data is missing.
const icu::Normalizer2* reference_nfc() {
  static const auto* const filtered = []() -> const icu::Normalizer2* {
    UErrorCode error = U_ZERO_ERROR;
    const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(error);
    auto set = std::make_unique<icu::UnicodeSet>("[:age=9.0:]", error);
    if (U_FAILURE(error)) return nullptr;
    set->freeze();
    return new icu::FilteredNormalizer2(*nfc, *set.release());
  }();
  return filtered;
}

// False when `text` is in form C already, is not UTF-8 or beyond ICU's 2 GiB; else `out` becomes
// its form C.
bool normalize_nfc(std::string_view text, std::string& out) {
  if (has_no_marks(text) || text.size() > INT32_MAX) return false;
  if (valid_utf8_prefix(text) != text.size()) return false;
  const icu::Normalizer2* nfc = reference_nfc();
  if (nfc == nullptr) return false;
  UErrorCode error = U_ZERO_ERROR;
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (nfc->isNormalizedUTF8(piece, error) || U_FAILURE(error)) return false;
  out.clear();
  icu::StringByteSink<std::string> sink(&out);
  nfc->normalizeUTF8(0, piece, sink, nullptr, error);
  return U_SUCCESS(error);
}

void spaces_to_bars(std::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      out += kBar;
    } else {
      out += c;
    }
  }
}

std::vector<AddedToken> select(const TokenizerParts& parts, bool normalized, bool control_too) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : parts.added) {
    const bool control = parts.vocab.kinds[token.id] == TokenKind::kControl;
    if (token.normalized == normalized && (control_too || !control)) out.push_back(token);
  }
  return out;
}

std::vector<AddedToken> select_control(const TokenizerParts& parts) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : parts.added) {
    if (parts.vocab.kinds[token.id] == TokenKind::kControl) out.push_back(token);
  }
  return out;
}

std::map<std::string, TokenId, std::less<>> ids_by_name(const std::vector<AddedToken>& added) {
  std::map<std::string, TokenId, std::less<>> out;
  for (const AddedToken& token : added) out.emplace(token.content, token.id);
  return out;
}

}  // namespace

struct Tokenizer::Impl {
  // Added tokens that are looked for in one mode: in the text as it is, then in normalized text.
  struct Finder {
    AddedTokens raw;
    AddedTokens normalized;
  };

  explicit Impl(const TokenizerParts& p)
      : bpe(p.bpe),
        plain{AddedTokens(select(p, false, false)), AddedTokens(select(p, true, false))},
        special{AddedTokens(select(p, false, true)), AddedTokens(select(p, true, true))},
        control(select_control(p)),
        normalizer(p.normalizer),
        pre(p.pre),
        space_prefix(p.space_prefix),
        ids(ids_by_name(p.added)),
        warnings(p.warnings) {}

  Bpe bpe;
  Finder plain;
  Finder special;
  AddedTokens control;
  Normalizer normalizer;
  PreTokenizer pre;
  bool space_prefix;
  std::map<std::string, TokenId, std::less<>> ids;  // of added tokens
  std::vector<std::string> warnings;
};

// One call of encode: its buffers and its output.
class Tokenizer::Encoder {
 public:
  Encoder(const Impl& impl, size_t text_bytes) : impl_(impl), memo_(text_bytes) {
    out_.reserve(text_bytes / 3 + 8);
  }

  std::vector<TokenId> run(std::string_view text, const Impl::Finder& finder) {
    each_part(text, finder.raw, [&](std::string_view part) {
      each_part(normalize(part), finder.normalized,
                [&](std::string_view inner) { encode_text(inner); });
    });
    return std::move(out_);
  }

 private:
  // Puts added tokens into the output and calls `encode` for each text between them, in order.
  template <typename F>
  void each_part(std::string_view text, const AddedTokens& tokens, const F& encode) {
    size_t from = 0;
    while (const auto match = tokens.find(text, from)) {
      if (match->begin > from) encode(text.substr(from, match->begin - from));
      out_.push_back(match->id);
      from = match->end;
    }
    if (from < text.size()) encode(text.substr(from));
  }

  std::string_view normalize(std::string_view text) {
    switch (impl_.normalizer) {
      case Normalizer::kNone: break;
      case Normalizer::kNfc:
        return normalize_nfc(text, normalized_) ? std::string_view(normalized_) : text;
      case Normalizer::kSpaceToBar:
        spaces_to_bars(text, normalized_);
        if (impl_.space_prefix) normalized_.insert(0, kBar);
        return normalized_;
    }
    return text;
  }

  void encode_text(std::string_view text) {
    ends_.clear();
    impl_.pre.split(text, ends_);
    size_t begin = 0;
    for (const size_t end : ends_) {
      encode_piece(text.substr(begin, end - begin));
      begin = end;
    }
  }

  void encode_piece(std::string_view piece) {
    if (piece.size() > PieceMemo::kBytesMax) {
      impl_.bpe.encode_piece(piece, scratch_, out_);
      return;
    }
    PieceMemo::Entry key;
    PieceMemo::Entry& entry = memo_.locate(piece, key);
    const size_t begin = out_.size();
    if (entry.length == key.length && entry.bytes == key.bytes) {
      out_.resize(begin + entry.count);
      std::copy_n(out_.begin() + entry.begin, entry.count, out_.begin() + begin);
      return;
    }
    impl_.bpe.encode_piece(piece, scratch_, out_);
    if (begin > UINT32_MAX) return;
    key.begin = static_cast<uint32_t>(begin);
    key.count = static_cast<uint16_t>(out_.size() - begin);  // one a byte at most
    entry = key;
  }

  const Impl& impl_;
  PieceMemo memo_;
  Bpe::Scratch scratch_;
  std::string normalized_;
  std::vector<size_t> ends_;
  std::vector<TokenId> out_;
};

Tokenizer::Tokenizer(TokenizerParts parts) {
  auto impl = std::make_unique<Impl>(parts);
  vocab_ = std::make_shared<const Vocab>(std::move(parts.vocab));
  if (parts.ignore_merges) {
    StringTable table(vocab_->bytes);
    for (TokenId id = 0; id < vocab_->size(); ++id) {
      if (vocab_->kinds[id] == TokenKind::kNormal) table.insert(id);
    }
    impl->bpe.set_whole_pieces(std::move(table));
  }
  impl_ = std::move(impl);
}

Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, Mode mode) const {
  return Encoder(*impl_, text.size())
      .run(text, mode == Mode::kSpecial ? impl_->special : impl_->plain);
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string bytes;
  for (const TokenId id : ids) bytes += token_bytes(id);
  return repair_utf8(bytes);
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_->size()) return {};
  return vocab_->bytes[id];
}

TokenId Tokenizer::added_token(std::string_view content) const {
  const auto it = impl_->ids.find(content);
  return it == impl_->ids.end() ? -1 : it->second;
}

std::optional<Tokenizer::ControlMatch> Tokenizer::find_control(std::string_view text,
                                                               size_t from) const {
  const auto match = impl_->control.find(text, from);
  if (!match) return std::nullopt;
  return ControlMatch{match->begin, match->end, match->id};
}

const std::vector<std::string>& Tokenizer::warnings() const { return impl_->warnings; }

}  // namespace lineshaft::recipe
