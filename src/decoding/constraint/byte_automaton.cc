#include "decoding/constraint/byte_automaton.h"

#include <algorithm>

#include "base/hash.h"

namespace lineshaft::decoding {

CodePointRanges normalize(CodePointRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodePointRanges out;
  for (const auto& range : ranges) {
    if (!out.empty() && range.first <= out.back().second + 1) {
      out.back().second = std::max(out.back().second, range.second);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

CodePointRanges complement(const CodePointRanges& ranges) {
  CodePointRanges out;
  uint32_t from = 0;
  for (const auto& [low, high] : ranges) {
    if (low > from) out.emplace_back(from, low - 1);
    from = high + 1;
  }
  if (from <= kCodePointMax) out.emplace_back(from, kCodePointMax);
  return out;
}

int32_t NfaBuilder::add(Nfa::Node node) {
  if (nfa_.nodes.size() >= nodes_max_) {
    full_ = true;
    return 0;
  }
  nfa_.nodes.push_back(node);
  return static_cast<int32_t>(nfa_.nodes.size()) - 1;
}

int32_t NfaBuilder::bytes(uint8_t low, uint8_t high, int32_t next) {
  const auto key = std::tuple(low, high, next);
  if (const auto found = shared_.find(key); found != shared_.end()) return found->second;
  const int32_t node = add({Nfa::Op::kBytes, low, high, next, -1});
  shared_.emplace(key, node);
  return node;
}

int32_t NfaBuilder::either(int32_t a, int32_t b) {
  return a < 0 ? b : add({Nfa::Op::kSplit, 0, 0, a, b});
}

int32_t NfaBuilder::nothing() { return add({Nfa::Op::kBytes, 1, 0, -1, -1}); }

// Splits a range until all its code points share their lead bytes and run through the whole of the
// trailing ones, so that it is one product of byte ranges.
int32_t NfaBuilder::utf8_range(uint32_t low, uint32_t high, int32_t next) {
  static constexpr uint32_t kLengthEnds[] = {0x7f, 0x7ff, 0xffff, kCodePointMax};
  for (const uint32_t end : kLengthEnds) {
    if (low <= end && end < high) {
      return either(utf8_range(low, end, next), utf8_range(end + 1, high, next));
    }
  }
  const int trailing = high <= 0x7f ? 0 : high <= 0x7ff ? 1 : high <= 0xffff ? 2 : 3;
  for (int i = trailing; i >= 1; --i) {
    const uint32_t ones = (uint32_t{1} << (6 * i)) - 1;
    if ((low & ~ones) == (high & ~ones)) continue;
    if ((low & ones) != 0) {
      return either(utf8_range(low, low | ones, next), utf8_range((low | ones) + 1, high, next));
    }
    if ((high & ones) != ones) {
      return either(utf8_range(low, (high & ~ones) - 1, next),
                    utf8_range(high & ~ones, high, next));
    }
  }
  int32_t node = next;
  for (int i = 0; i < trailing; ++i) {
    node = bytes(static_cast<uint8_t>(0x80 | ((low >> (6 * i)) & 0x3f)),
                 static_cast<uint8_t>(0x80 | ((high >> (6 * i)) & 0x3f)), node);
  }
  static constexpr uint8_t kLead[] = {0x00, 0xc0, 0xe0, 0xf0};
  return bytes(static_cast<uint8_t>(kLead[trailing] | (low >> (6 * trailing))),
               static_cast<uint8_t>(kLead[trailing] | (high >> (6 * trailing))), node);
}

int32_t NfaBuilder::code_points(const CodePointRanges& ranges, int32_t next) {
  int32_t entry = -1;
  for (const auto& [low, high] : ranges) {
    // UTF-8 has no surrogates.
    if (low < 0xd800) entry = either(entry, utf8_range(low, std::min(high, 0xd7ffu), next));
    if (high > 0xdfff) entry = either(entry, utf8_range(std::max(low, 0xe000u), high, next));
    if (full_) return 0;
  }
  return entry < 0 ? nothing() : entry;
}

Nfa NfaBuilder::finish(int32_t start) {
  nfa_.start = start;
  return std::move(nfa_);
}

LazyDfa::LazyDfa(std::shared_ptr<const Nfa> nfa, bool search)
    : nfa_(std::move(nfa)), search_(search), seen_(nfa_->nodes.size(), 0) {
  std::array<bool, 257> cuts{};
  for (const Nfa::Node& node : nfa_->nodes) {
    if (node.op != Nfa::Op::kBytes || node.low > node.high) continue;
    cuts[node.low] = true;
    cuts[size_t{node.high} + 1] = true;
  }
  int current = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && cuts[byte]) ++current;
    classes_[byte] = static_cast<uint8_t>(current);
  }
  class_count_ = current + 1;
  states_.push_back({{}, std::vector<int32_t>(static_cast<size_t>(class_count_), kDead), false});
  std::vector<int32_t> nodes;
  ++mark_;
  close(nfa_->start, true, false, nodes);
  std::sort(nodes.begin(), nodes.end());
  start_ = intern(std::move(nodes), true);
}

// Adds what can be reached from `node` without reading; only nodes that read, match or wait for the
// end are kept, for the others are passed through.
void LazyDfa::close(int32_t node, bool at_begin, bool at_end, std::vector<int32_t>& out) {
  std::vector<int32_t> todo{node};
  while (!todo.empty()) {
    const int32_t at = todo.back();
    todo.pop_back();
    if (seen_[static_cast<size_t>(at)] == mark_) continue;
    seen_[static_cast<size_t>(at)] = mark_;
    const Nfa::Node& n = nfa_->nodes[static_cast<size_t>(at)];
    switch (n.op) {
      case Nfa::Op::kSplit:
        todo.push_back(n.next);
        todo.push_back(n.other);
        break;
      case Nfa::Op::kBegin:
        if (at_begin) todo.push_back(n.next);
        break;
      case Nfa::Op::kEnd:
        if (at_end) {
          todo.push_back(n.next);
        } else {
          out.push_back(at);
        }
        break;
      case Nfa::Op::kBytes:
        if (n.low <= n.high) out.push_back(at);
        break;
      case Nfa::Op::kMatch:
        out.push_back(at);
        break;
    }
  }
}

int32_t LazyDfa::intern(std::vector<int32_t> nodes, bool at_begin) {
  if (nodes.empty()) return kDead;
  const auto* data = reinterpret_cast<const uint8_t*>(nodes.data());
  const uint64_t hash = xxh64({data, nodes.size() * sizeof(int32_t)}, at_begin ? 1 : 0);
  auto& same_hash = by_hash_[hash];
  for (const int32_t candidate : same_hash) {
    if (states_[static_cast<size_t>(candidate)].nodes == nodes) return candidate;
  }
  State state;
  std::vector<int32_t> at_end;
  ++mark_;
  for (const int32_t node : nodes) close(node, at_begin, true, at_end);
  const auto matches = [&](const std::vector<int32_t>& list) {
    return std::any_of(list.begin(), list.end(), [&](int32_t node) {
      return nfa_->nodes[static_cast<size_t>(node)].op == Nfa::Op::kMatch;
    });
  };
  state.accepts = matches(at_end);
  const auto id = static_cast<int32_t>(states_.size());
  // A search that has matched stays matched, whatever follows.
  const bool matched = search_ && matches(nodes);
  state.next.assign(static_cast<size_t>(class_count_), matched ? id : -1);
  state.nodes = std::move(nodes);
  memory_bytes_ += sizeof(State) + 4 * (state.nodes.size() + state.next.size()) + 32;
  states_.push_back(std::move(state));
  same_hash.push_back(id);
  return id;
}

int32_t LazyDfa::make_next(int32_t state, uint8_t byte) {
  std::vector<int32_t> nodes;
  ++mark_;
  for (const int32_t at : states_[static_cast<size_t>(state)].nodes) {
    const Nfa::Node& n = nfa_->nodes[static_cast<size_t>(at)];
    if (n.op == Nfa::Op::kBytes && n.low <= byte && byte <= n.high) {
      close(n.next, false, false, nodes);
    }
  }
  if (search_) close(nfa_->start, false, false, nodes);
  std::sort(nodes.begin(), nodes.end());
  const int32_t next = intern(std::move(nodes), false);
  states_[static_cast<size_t>(state)].next[classes_[byte]] = next;
  return next;
}

}  // namespace lineshaft::decoding
