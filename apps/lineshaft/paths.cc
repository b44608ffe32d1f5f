#include "lineshaft/paths.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace lineshaft::app {
namespace fs = std::filesystem;
namespace {

fs::path xdg(const char* variable, const char* fallback) {
  const char* set = std::getenv(variable);
  // The specification says that relative paths in these variables are to be ignored.
  if (set != nullptr && *set == '/') return fs::path(set) / "lineshaft";
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr && *home != '\0' ? home : "/") / fallback / "lineshaft";
}

bool looks_like_path(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".gguf");
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

}  // namespace

fs::path models_dir() { return xdg("XDG_DATA_HOME", ".local/share") / "models"; }
fs::path state_dir() { return xdg("XDG_STATE_HOME", ".local/state"); }
fs::path default_config_file() { return xdg("XDG_CONFIG_HOME", ".config") / "config.toml"; }

const std::vector<KnownModel>& known_models() {
  static const std::vector<KnownModel> models = {
      {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
       "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
       "./run --setup-only fetches it"},
  };
  return models;
}

std::vector<std::string> available_names() {
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) {
    if (is_file(models_dir() / model.file)) names.emplace_back(model.name);
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(models_dir(), error)) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

StatusOr<std::string> resolve_model(std::string_view argument) {
  if (looks_like_path(argument)) {
    std::error_code error;
    if (fs::is_directory(fs::path(argument), error)) {
      return not_found("'{}' is a folder; name the .gguf file in it", argument);
    }
    if (!is_file(fs::path(argument))) return not_found("model file '{}' does not exist", argument);
    return std::string(argument);
  }
  std::string hint = "get one with 'lineshaft pull hf://org/repo/file.gguf'";
  for (const KnownModel& model : known_models()) {
    if (argument != model.name) continue;
    const fs::path path = models_dir() / model.file;
    if (is_file(path)) return path.string();
    hint = model.how_to_get;
  }
  const fs::path pulled = models_dir() / (std::string(argument) + ".gguf");
  if (is_file(pulled)) return pulled.string();
  std::string names;
  for (const std::string& name : available_names()) names += (names.empty() ? "" : ", ") + name;
  return not_found("no model '{}' in {} (there: {}); {}", argument, models_dir().string(),
                   names.empty() ? "none" : names, hint);
}

std::string model_name(std::string_view argument) {
  if (!looks_like_path(argument)) return std::string(argument);
  for (const KnownModel& model : known_models()) {
    if (fs::path(argument).filename() == model.file) return std::string(model.name);
  }
  return fs::path(argument).stem().string();
}

}  // namespace lineshaft::app
