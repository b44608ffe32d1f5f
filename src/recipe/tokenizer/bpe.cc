#include "recipe/tokenizer/bpe.h"

#include <algorithm>

#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

constexpr uint32_t kNoRank = 0xffffffffu;
constexpr uint32_t kNoNode = 0xffffffffu;

// Up to here scanning for the best pair beats keeping a heap.
constexpr size_t kShortSymbolsMax = 48;

}  // namespace

Bpe::Bpe(const BpeData& data)
    : byte_level_(data.byte_level),
      byte_ids_(data.byte_ids),
      char_ids_(data.char_ids.size()),
      unknown_(data.unknown),
      fuse_unknown_(data.fuse_unknown),
      merges_(data.merges.size()) {
  for (const auto& [code_point, id] : data.char_ids) {
    char_ids_.insert(code_point, 0, static_cast<uint32_t>(id), 0);
  }
  uint32_t rank = 0;
  for (const Merge& merge : data.merges) {
    merges_.insert(static_cast<uint32_t>(merge.left), static_cast<uint32_t>(merge.right), rank++,
                   static_cast<uint32_t>(merge.result));
  }
}

void Bpe::push_unknown(bool& was_unknown, std::vector<TokenId>& symbols) const {
  if (unknown_ >= 0 && !(was_unknown && fuse_unknown_)) symbols.push_back(unknown_);
  was_unknown = true;
}

void Bpe::symbols_of(std::string_view piece, std::vector<TokenId>& symbols) const {
  symbols.clear();
  bool was_unknown = false;
  if (byte_level_) {
    for (const char c : piece) {
      const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
      if (id < 0) {
        push_unknown(was_unknown, symbols);
        continue;
      }
      was_unknown = false;
      symbols.push_back(id);
    }
    return;
  }
  const char* p = piece.data();
  const char* end = p + piece.size();
  while (p < end) {
    const CodePoint c = decode_utf8(p, end);
    const char* next = p + c.length;
    const auto* slot = c.value == kInvalidByte ? nullptr : char_ids_.find(c.value, 0);
    const auto has_token = [&](char b) { return byte_ids_[static_cast<uint8_t>(b)] >= 0; };
    if (slot != nullptr) {
      symbols.push_back(static_cast<TokenId>(slot->first));
      was_unknown = false;
    } else if (std::all_of(p, next, has_token)) {
      for (; p < next; ++p) symbols.push_back(byte_ids_[static_cast<uint8_t>(*p)]);
      was_unknown = false;
    } else {
      push_unknown(was_unknown, symbols);
    }
    p = next;
  }
}

void Bpe::encode_piece(std::string_view piece, Scratch& scratch,
                       std::vector<TokenId>& out) const {
  if (whole_pieces_) {
    const TokenId id = whole_pieces_->find(piece);
    if (id >= 0) {
      out.push_back(id);
      return;
    }
  }
  symbols_of(piece, scratch.symbols_);
  if (scratch.symbols_.size() <= kShortSymbolsMax) {
    merge_short(scratch, out);
  } else {
    merge_long(scratch, out);
  }
}

void Bpe::merge_short(Scratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols_;
  size_t count = symbols.size();
  scratch.ranks_.assign(count + 1, kNoRank);
  scratch.results_.resize(count + 1);
  uint32_t* ranks = scratch.ranks_.data();  // of the pair (i, i + 1)
  TokenId* results = scratch.results_.data();
  const auto rate = [&](size_t i) {
    const auto* slot = i + 1 < count ? merges_.find(static_cast<uint32_t>(symbols[i]),
                                                    static_cast<uint32_t>(symbols[i + 1]))
                                     : nullptr;
    ranks[i] = slot == nullptr ? kNoRank : slot->first;
    if (slot != nullptr) results[i] = static_cast<TokenId>(slot->second);
  };
  for (size_t i = 0; i + 1 < count; ++i) rate(i);
  while (count > 1) {
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNoRank) break;
    symbols[best] = results[best];
    std::move(symbols.begin() + best + 2, symbols.begin() + count, symbols.begin() + best + 1);
    std::move(ranks + best + 2, ranks + count, ranks + best + 1);
    std::move(results + best + 2, results + count, results + best + 1);
    --count;
    rate(best);
    if (best > 0) rate(best - 1);
  }
  out.insert(out.end(), symbols.begin(), symbols.begin() + count);
}

void Bpe::merge_long(Scratch& scratch, std::vector<TokenId>& out) const {
  const auto count = static_cast<uint32_t>(scratch.symbols_.size());
  auto& nodes = scratch.nodes_;
  auto& heap = scratch.heap_;
  nodes.resize(count);
  heap.clear();
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {scratch.symbols_[i], i == 0 ? kNoNode : i - 1, i + 1 == count ? kNoNode : i + 1};
  }
  const auto find = [&](uint32_t left) -> const PairTable::Slot* {
    const uint32_t right = nodes[left].next;
    if (right == kNoNode) return nullptr;
    return merges_.find(static_cast<uint32_t>(nodes[left].id),
                        static_cast<uint32_t>(nodes[right].id));
  };
  const auto add = [&](uint32_t left) {
    const auto* slot = find(left);
    if (slot == nullptr) return false;
    heap.push_back({slot->first, left, static_cast<TokenId>(slot->second)});
    return true;
  };
  for (uint32_t i = 0; i + 1 < count; ++i) add(i);
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Scratch::Candidate top = heap.back();
    heap.pop_back();
    Scratch::Node& left = nodes[top.left];
    if (left.id < 0) continue;
    const auto* slot = find(top.left);
    // The pair that was meant is gone when its neighbours have merged otherwise.
    if (slot == nullptr || slot->first != top.rank) continue;
    Scratch::Node& right = nodes[left.next];
    left.id = top.result;
    right.id = -1;
    left.next = right.next;
    if (left.next != kNoNode) nodes[left.next].previous = top.left;
    if (add(top.left)) std::push_heap(heap.begin(), heap.end());
    if (left.previous != kNoNode && add(left.previous)) std::push_heap(heap.begin(), heap.end());
  }
  for (uint32_t i = 0; i != kNoNode; i = nodes[i].next) out.push_back(nodes[i].id);
}

}  // namespace lineshaft::recipe
