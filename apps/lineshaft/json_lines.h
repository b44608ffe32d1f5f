// Lines of JSON or text from standard input or a file, with the line's number in every error.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "core/ids.h"

namespace lineshaft::app {

// Calls `use` for each line that is not blank, until one fails; the error begins "line 3: ".
Status for_each_line(std::istream& in, const std::function<Status(const std::string&)>& use);

// One JSON array of token ids a line, each id in [0, vocab), each line with at least one.
// kNotFound: no such file. "-" is standard input.
StatusOr<std::vector<std::vector<TokenId>>> read_token_file(const std::string& path,
                                                            int32_t vocab);

// Token ids from a JSON array.
StatusOr<std::vector<TokenId>> token_ids(const Json& value, int32_t vocab);

// One line on standard output, flushed: whoever reads a pipe sees it at once.
void print_json(const Json& value);

}  // namespace lineshaft::app
