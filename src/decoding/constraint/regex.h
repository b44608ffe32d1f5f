// Regular expressions, as ECMA-262 (2023, with the u flag) writes them, to byte automata.
//
// Linear time always: what would need backtracking (back-references, look-behind, word boundaries,
// look-ahead elsewhere than at the front) is refused by name, never approximated. Must not know
// JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "decoding/constraint/byte_automaton.h"

namespace lineshaft::decoding {

struct RegexLimits {
  size_t nodes_max = 200'000;  // of the NFA
  int depth_max = 200;         // groups in groups
  int repeat_max = 20'000;     // in {n,m}
};

// One pattern: matches a text where `body` does, all of `also` do and none of `never` do. The last
// two come from look-aheads at the front: ^(?=x)(?!y)z.
struct Regex {
  std::shared_ptr<const Nfa> body;
  std::vector<std::shared_ptr<const Nfa>> also;
  std::vector<std::shared_ptr<const Nfa>> never;
};

// kInvalidArgument for text that is no expression; kUnimplemented for what can't be an automaton;
// kResourceExhausted beyond `limits`. The message names the construct and its byte.
StatusOr<Regex> parse_regex(std::string_view text, const RegexLimits& limits = {});

// Parses `text` so that the NFA can be embedded: the whole expression, without look-ahead.
StatusOr<std::shared_ptr<const Nfa>> parse_plain_regex(std::string_view text,
                                                       const RegexLimits& limits = {});

// The set of code points of one character class "[…]" that starts at text[*at]; *at is moved
// behind it. Used by the grammar readers as well.
StatusOr<CodePointRanges> parse_char_class(std::string_view text, size_t* at);

}  // namespace lineshaft::decoding
