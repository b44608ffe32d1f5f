#include "lineshaft/template_file.h"

#include <fstream>
#include <sstream>

#include "base/json.h"

namespace lineshaft::app {

StatusOr<std::string> read_template_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return not_found("cannot read the chat template '{}'", path);
  // A template begins with "{%" or with words, never with an object of JSON.
  const auto json = parse_json(text.str());
  if (!json.ok() || !json->is_object()) return std::move(text).str();
  const Json found = json->value("chat_template", Json());
  if (found.is_string()) return found.get<std::string>();
  for (const Json& one : found.is_array() ? found : Json::array()) {
    const bool named = one.is_object() && one.value("name", Json()) == "default";
    if (named && one.value("template", Json()).is_string()) {
      return one["template"].get<std::string>();
    }
  }
  return invalid_argument("'{}' has no chat_template", path);
}

}  // namespace lineshaft::app
