// Formats of JSON Schema as byte automata. Must not know schemas.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "decoding/constraint/byte_automaton.h"

namespace lineshaft::decoding {

enum class FormatSupport {
  kUnknown,   // not a format of the standard: an annotation
  kRefused,   // of the standard, but no automaton of ours is right for it
  kEnforced,
};

struct Format {
  FormatSupport support = FormatSupport::kUnknown;
  std::shared_ptr<const Nfa> nfa;  // kEnforced: matches whole texts
};

// date-time, date, time (RFC 3339; leap seconds at whole quarters of an hour from UTC), duration
// (ISO 8601 as in RFC 3339 appendix A), email (RFC 5321), hostname (RFC 1123, without A-labels),
// ipv4, ipv6, uri, uri-reference, iri, iri-reference, uri-template, uuid, json-pointer,
// relative-json-pointer, regex (a part of ECMA-262: groups nest twice).
Format find_format(std::string_view name);

}  // namespace lineshaft::decoding
