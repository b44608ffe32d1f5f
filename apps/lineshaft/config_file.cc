#include "lineshaft/config_file.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <toml++/toml.h>

namespace lineshaft::app {
namespace {

std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

StatusOr<FileSetting> setting_of(const std::string& path, std::string section, std::string key,
                                 const toml::node& node) {
  FileSetting setting{std::move(section), std::move(key), {},
                      static_cast<int>(node.source().begin.line)};
  const auto refuse = [&] {
    return invalid_argument("{}:{}: '{}' takes a string, a number, true, false or a list of these",
                            path, setting.line, setting.key);
  };
  if (const auto* list = node.as_array()) {
    for (const toml::node& item : *list) {
      const auto text = scalar_text(item);
      if (!text) return refuse();
      setting.values.push_back(*text);
    }
    return setting;
  }
  const auto text = scalar_text(node);
  if (!text) return refuse();
  setting.values.push_back(*text);
  return setting;
}

}  // namespace

StatusOr<std::vector<FileSetting>> read_config_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return not_found("cannot read config file '{}'", path);
  toml::table root;
  try {
    root = toml::parse(text.str());
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    return invalid_argument("{}:{}:{}: {}", path, at.line, at.column, error.description());
  }
  std::vector<FileSetting> settings;
  for (const auto& [key, node] : root) {
    const toml::table* section = node.as_table();
    if (section == nullptr) {
      LS_ASSIGN_OR_RETURN(auto setting, setting_of(path, "", std::string(key.str()), node));
      settings.push_back(std::move(setting));
      continue;
    }
    for (const auto& [name, inner] : *section) {
      LS_ASSIGN_OR_RETURN(auto setting, setting_of(path, std::string(key.str()),
                                                   std::string(name.str()), inner));
      settings.push_back(std::move(setting));
    }
  }
  return settings;
}

}  // namespace lineshaft::app
