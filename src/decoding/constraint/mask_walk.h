// The walk of a machine over a token trie: sets the bit of each token all of whose bytes the
// machine takes. Must not know which machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "decoding/constraint/token_trie.h"

namespace lineshaft::decoding {

// Machine: bool step(State&, std::string_view text), where text ends with the byte to read. `text`
// is what was read before; it is used as scratch and left as it was.
template <class Machine, class State>
void walk_tokens(Machine& machine, const TokenTrie::Tree& tree, const State& from,
                 std::string& text, std::span<uint64_t> mask) {
  std::array<State, 256> states;
  states[0] = from;
  const size_t before = text.size();
  text.resize(before + 256);
  const auto count = static_cast<int32_t>(tree.nodes.size());
  for (int32_t i = 0; i < count;) {
    const TokenTrie::Node& node = tree.nodes[static_cast<size_t>(i)];
    State& state = states[node.depth];
    state = states[node.depth - 1];
    text[before + node.depth - 1] = static_cast<char>(node.byte);
    if (!machine.step(state, std::string_view(text.data(), before + node.depth))) {
      i = node.end;
      continue;
    }
    for (int32_t t = node.tokens_begin; t < node.tokens_end; ++t) {
      const auto id = static_cast<size_t>(tree.tokens[static_cast<size_t>(t)]);
      mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    ++i;
  }
  text.resize(before);
}

}  // namespace lineshaft::decoding
