#include "lineshaft/json_lines.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iostream>

namespace lineshaft::app {

Status for_each_line(std::istream& in, const std::function<Status(const std::string&)>& use) {
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const Status status = use(line);
    if (status.ok()) continue;
    return make_status(status.code(), fmt::format("line {}: {}", number, message_of(status)));
  }
  return ok_status();
}

StatusOr<std::vector<TokenId>> token_ids(const Json& value, int32_t vocab) {
  if (!value.is_array()) return invalid_argument("expected a JSON array of token ids");
  std::vector<TokenId> ids;
  ids.reserve(value.size());
  for (const Json& item : value) {
    if (!item.is_number_integer() || item < 0 || item >= vocab) {
      return invalid_argument("token {} at index {} is no id in [0, {})", write_json(item),
                              ids.size(), vocab);
    }
    ids.push_back(item.get<TokenId>());
  }
  return ids;
}

StatusOr<std::vector<std::vector<TokenId>>> read_token_file(const std::string& path,
                                                            int32_t vocab) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return not_found("cannot read '{}'", path);
  }
  std::vector<std::vector<TokenId>> prompts;
  const Status status =
      for_each_line(path == "-" ? std::cin : file, [&](const std::string& line) -> Status {
        LS_ASSIGN_OR_RETURN(const Json value, parse_json(line));
        LS_ASSIGN_OR_RETURN(auto ids, token_ids(value, vocab));
        if (ids.empty()) return invalid_argument("an empty array is no prompt");
        prompts.push_back(std::move(ids));
        return ok_status();
      });
  if (!status.ok()) {
    return make_status(status.code(), fmt::format("{}: {}", path, message_of(status)));
  }
  return prompts;
}

void print_json(const Json& value) {
  const std::string line = write_json(value) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace lineshaft::app
