// Where things live for this user (XDG base directories) and what a short model name means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lineshaft::app {

// $XDG_DATA_HOME/lineshaft/models, else ~/.local/share/lineshaft/models.
std::filesystem::path models_dir();

// $XDG_STATE_HOME/lineshaft, else ~/.local/state/lineshaft (the dialogue's history file).
std::filesystem::path state_dir();

// $XDG_CONFIG_HOME/lineshaft/config.toml, else ~/.config/lineshaft/config.toml.
std::filesystem::path default_config_file();

// A model that has a short name: the file that the name stands for in models_dir().
struct KnownModel {
  std::string_view name;
  std::string_view file;
  int64_t bytes;
  std::string_view sha256;
  std::string_view how_to_get;  // one line for the user
};
const std::vector<KnownModel>& known_models();

// Names that resolve_model understands right now: known models, and stems of files present.
std::vector<std::string> available_names();

// A path or a short name → an existing file. kNotFound says which names exist and how to pull.
// An argument with a '/' or ending in .gguf is a path and never a name.
StatusOr<std::string> resolve_model(std::string_view argument);

// The name under which clients know this model: the short name, else the file's stem.
std::string model_name(std::string_view argument);

}  // namespace lineshaft::app
