// JSON Schema (2020-12, and the spellings of drafts 4 to 2019-09) to a formula.
//
// Fails closed: a keyword that can't be enforced exactly is refused by its pointer, never dropped.
// Unknown keywords and unknown formats are annotations, as the standard says; the latter are told
// as warnings. Known restrictions, all on the safe side: arrays with uniqueItems have at most 256
// items; numbers have at most 400 bytes. Must not know texts or tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "decoding/constraint/json_machine.h"

namespace lineshaft::decoding {

struct Refusal {
  std::string pointer;  // JSON pointer of the schema that holds the keyword; a fragment: "#/a/b"
  std::string keyword;  // "" when the whole is at fault
  std::string reason;
};

struct SchemaLimits {
  size_t formulas_max = 400'000;
  size_t pattern_nodes_max = 400'000;  // of all patterns together
};

struct CompiledSchema {
  std::shared_ptr<const SchemaProgram> program;  // null when refused
  Refusal refusal;
  std::vector<std::string> warnings;
};

CompiledSchema compile_schema(const Json& schema, const SchemaLimits& limits = {});

}  // namespace lineshaft::decoding
