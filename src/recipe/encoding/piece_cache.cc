#include "recipe/encoding/piece_cache.h"

#include <utility>

#include "base/hash.h"

namespace lineshaft::recipe {
namespace {

// Shorter pieces are tokenized faster than they are looked up and kept.
constexpr size_t kPieceBytesMin = 64;

uint64_t hash_of(std::string_view text) {
  return xxh64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

PieceCache::PieceCache(std::shared_ptr<const Tokenizer> tokenizer, size_t bytes_max)
    : tokenizer_(std::move(tokenizer)), bytes_max_(bytes_max) {}

size_t PieceCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// Texts are compared, so that two of one hash are not taken for each other.
std::shared_ptr<const PieceCache::Entry> PieceCache::find(uint64_t hash, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(hash);
  if (place == places_.end() || (*place->second)->text != text) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return entries_.front();
}

void PieceCache::insert(uint64_t hash, const std::shared_ptr<const Entry>& entry) {
  const auto size_of = [](const Entry& one) {
    return sizeof(Entry) + one.text.size() + one.tokens.size() * sizeof(TokenId);
  };
  if (size_of(*entry) > bytes_max_) return;
  const std::lock_guard lock(mutex_);
  if (places_.contains(hash)) return;
  entries_.push_front(entry);
  places_[hash] = entries_.begin();
  bytes_ += size_of(*entry);
  while (bytes_ > bytes_max_) {
    bytes_ -= size_of(*entries_.back());
    places_.erase(hash_of(entries_.back()->text));
    entries_.pop_back();
  }
}

// Tokenized outside the lock: two threads may do the same once.
std::shared_ptr<const PieceCache::Entry> PieceCache::encoded(const std::string& text) {
  const uint64_t hash = hash_of(text);
  if (auto known = find(hash, text)) return known;
  auto entry = std::make_shared<Entry>();
  entry->text = text;
  entry->tokens = tokenizer_->encode(text, Tokenizer::Mode::kPlain);
  insert(hash, entry);
  return entry;
}

StatusOr<std::vector<TokenId>> PieceCache::encode(const std::vector<Piece>& pieces) {
  std::vector<TokenId> ids;
  for (const Piece& piece : pieces) {
    if (!piece.control && piece.text.size() >= kPieceBytesMin) {
      const auto entry = encoded(piece.text);
      ids.insert(ids.end(), entry->tokens.begin(), entry->tokens.end());
      continue;
    }
    LS_RETURN_IF_ERROR(append_piece(piece, *tokenizer_, ids));
  }
  return ids;
}

}  // namespace lineshaft::recipe
