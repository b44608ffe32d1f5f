#include "lineshaft/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/status.h"
#include "lineshaft/command_table.h"
#include "lineshaft/config_file.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/paths.h"
#include "lineshaft/print.h"
#include "lineshaft/sizes.h"
#include "lineshaft/version.h"

namespace lineshaft::app {
namespace {

using Sources = std::map<const CLI::Option*, std::string>;

std::string environment_name(const std::string& long_name) {
  std::string out = "LINESHAFT_";
  for (unsigned char c : long_name) {
    out.push_back(c == '-' ? '_' : static_cast<char>(std::toupper(c)));
  }
  return out;
}

std::string long_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames().front();
}

// Options that a file or the environment may set.
bool settable(const CLI::Option& option) {
  const std::string name = long_name(option);
  return !name.empty() && name != "help" && name != "config" && name != "print-config";
}

CLI::Option* find_option(CLI::App* app, const std::string& name) {
  for (CLI::Option* option : app->get_options()) {
    if (!settable(*option)) continue;
    for (const std::string& known : option->get_lnames()) {
      if (known == name) return option;
    }
  }
  return nullptr;
}

std::string join(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ",") + value;
  return out;
}

std::unique_ptr<CLI::App> make_app(const Command& command, Config* config) {
  auto app = std::make_unique<CLI::App>(command.summary, std::string("lineshaft ") + command.name);
  app->option_defaults()->always_capture_default();
  app->set_help_flag("-h,--help", "Print this help and exit");
  command.add_options(app.get(), config);
  app->add_option("--config", "A TOML file with settings; keys are flags without the dashes")
      ->type_name("FILE")->group("General");
  app->add_flag("--print-config")
      ->description("Print each setting with its source and exit")
      ->group("General");
  return app;
}

std::string top_help() {
  std::string out = "lineshaft: a serving engine for language models\n\nUsage: lineshaft COMMAND "
                    "[OPTIONS]\n\nCommands:\n";
  for (const Command& command : commands()) {
    out += fmt::format("  {:<13} {}\n", command.name, command.summary);
  }
  out += "\n  lineshaft COMMAND --help tells a command's options; --version what this is.\n"
         "  MODEL is a path to a .gguf file or a short name (default: smollm2).\n";
  return out;
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands()) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

// The value of --config, wherever it stands.
std::string config_flag(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].starts_with("--config=")) return args[i].substr(9);
    if (args[i] == "--config" && i + 1 < args.size()) return args[i + 1];
  }
  const char* variable = std::getenv("LINESHAFT_CONFIG");
  return variable != nullptr ? variable : "";
}

// Gives `option` another default, converted and checked as a flag's value is.
Status set_default(CLI::Option* option, const std::string& value, const std::string& source,
                   Sources* sources) {
  try {
    option->default_val(value);
  } catch (const CLI::Error& error) {
    return invalid_argument("{}: {}", source, error.what());
  }
  (*sources)[option] = source;
  return ok_status();
}

// A key that no command knows is an error: it is a misspelling more often than not.
Status check_setting(const std::string& path, const FileSetting& setting) {
  std::vector<std::string> names;
  if (!setting.section.empty() && find_command(setting.section) == nullptr) {
    return invalid_argument("{}:{}: no command '{}' for this section", path, setting.line,
                            setting.section);
  }
  for (const Command& command : commands()) {
    if (!setting.section.empty() && setting.section != command.name) continue;
    Config scratch;
    const auto app = make_app(command, &scratch);
    if (find_option(app.get(), setting.key) != nullptr) return ok_status();
    for (const CLI::Option* option : app->get_options()) {
      if (settable(*option)) names.push_back(long_name(*option));
    }
  }
  const std::string near = nearest(setting.key, names);
  return invalid_argument("{}:{}: unknown key '{}'{}", path, setting.line, setting.key,
                          near.empty() ? "" : ", did you mean '" + near + "'?");
}

Status apply_file(const std::string& path, const Command& command, CLI::App* app,
                  Sources* sources) {
  LS_ASSIGN_OR_RETURN(const auto settings, read_config_file(path));
  for (const FileSetting& setting : settings) LS_RETURN_IF_ERROR(check_setting(path, setting));
  // General keys first, so that the command's own section wins.
  for (const bool own : {false, true}) {
    for (const FileSetting& setting : settings) {
      if (setting.section.empty() == own) continue;
      if (own && setting.section != command.name) continue;
      CLI::Option* option = find_option(app, setting.key);
      if (option == nullptr) continue;
      LS_RETURN_IF_ERROR(set_default(option, join(setting.values),
                                     fmt::format("{}:{}", path, setting.line), sources));
    }
  }
  return ok_status();
}

Status apply_environment(CLI::App* app, Sources* sources) {
  for (CLI::Option* option : app->get_options()) {
    if (!settable(*option)) continue;
    const std::string name = environment_name(long_name(*option));
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    LS_RETURN_IF_ERROR(set_default(option, value, name, sources));
  }
  return ok_status();
}

Status apply_defaults(const std::vector<std::string>& args, const Command& command,
                      CLI::App* app, Sources* sources) {
  std::string path = config_flag(args);
  std::error_code error;
  if (path.empty() && std::filesystem::exists(default_config_file(), error)) {
    path = default_config_file().string();
  }
  if (!path.empty()) LS_RETURN_IF_ERROR(apply_file(path, command, app, sources));
  return apply_environment(app, sources);
}

void print_config(const CLI::App& app, const Sources& sources) {
  for (const CLI::Option* option : app.get_options()) {
    if (!settable(*option)) continue;
    std::string source = "default";
    std::string value = option->get_default_str();
    if (const auto it = sources.find(option); it != sources.end()) source = it->second;
    if (option->count() > 0) {
      source = "flag";
      value = join(option->results());
    }
    if (value.empty() && option->get_expected_max() == 0) value = "false";
    print(stdout, "{} = {}  # {}\n", long_name(*option), value.empty() ? "\"\"" : value, source);
  }
}

// What CLI11 could not place, as a sentence with a hint.
std::string explain_extras(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& extra : app.remaining()) {
    if (!extra.starts_with("-")) continue;
    const std::string flag = extra.substr(0, extra.find('='));
    const std::string near = nearest(flag, names);
    return fmt::format("unknown flag {}{}", flag,
                       near.empty() ? "" : ", did you mean " + near + "?");
  }
  return "unexpected argument '" + (app.remaining().empty() ? "" : app.remaining().front()) + "'";
}

ParsedCommand wrong_use(const Command& command, const std::string& sentence) {
  ParsedCommand out;
  out.exit_code = fail(kWrongUse, invalid_argument("{}\nsee: lineshaft {} --help", sentence,
                                                   command.name));
  return out;
}

ParsedCommand parse_one(const Command& command, std::vector<std::string> args) {
  ParsedCommand out;
  const auto app = make_app(command, &out.config);
  Sources sources;
  if (const Status status = apply_defaults(args, command, app.get(), &sources); !status.ok()) {
    out.exit_code = fail(kWrongUse, status);
    return out;
  }
  // CLI11 knows one-letter short names only; llama.cpp's -np is in many fingers.
  for (std::string& arg : args) {
    if (arg == "-np") arg = "--max-seqs";
  }
  std::reverse(args.begin(), args.end());
  try {
    app->parse(args);
  } catch (const CLI::CallForHelp&) {
    print(stdout, "{}", app->help());
    return out;
  } catch (const CLI::ExtrasError&) {
    return wrong_use(command, explain_extras(*app));
  } catch (const CLI::Error& error) {
    return wrong_use(command, error.what());
  }
  if (app->get_option("--print-config")->count() > 0) {
    print_config(*app, sources);
    return out;
  }
  out.run = command.run;
  return out;
}

ParsedCommand print_and_end(const std::string& text) {
  print(stdout, "{}", text);
  return {};
}

ParsedCommand parse(std::vector<std::string> args) {
  if (args.empty()) {
    std::fputs(top_help().c_str(), stderr);
    ParsedCommand out;
    out.exit_code = kWrongUse;
    return out;
  }
  std::string name = args.front();
  args.erase(args.begin());
  if (name == "--version" || name == "-V" || name == "version") {
    return print_and_end(version_text());
  }
  if (name == "-h" || name == "--help" || name == "help") {
    if (args.empty()) return print_and_end(top_help());
    name = args.front();
    args.erase(args.begin());
    args.push_back("--help");
  }
  // Two words may name a command of their own: bench compare.
  if (!args.empty() && find_command(name + " " + args.front()) != nullptr) {
    name += " " + args.front();
    args.erase(args.begin());
  }
  if (const Command* command = find_command(name)) return parse_one(*command, std::move(args));
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  const std::string near = nearest(name, names);
  ParsedCommand out;
  out.exit_code = fail(kWrongUse, invalid_argument("unknown command '{}'{}; see lineshaft --help",
                                                   name,
                                                   near.empty() ? "" : ", did you mean " + near +
                                                                           "?"));
  return out;
}

}  // namespace

ParsedCommand parse_command_line(std::vector<std::string> args) {
  try {
    ParsedCommand out = parse(std::move(args));
    if (out.run == nullptr) return out;
    const StatusOr<Severity> level = parse_severity(out.config.common.log_level);
    if (!level.ok()) {
      out.run = nullptr;
      out.exit_code = fail(kWrongUse, level.status());
      return out;
    }
    set_log(*level);
    return out;
  } catch (const std::exception& error) {  // CLI11 beyond its own errors
    ParsedCommand out;
    out.exit_code = fail(kWrongUse, invalid_argument("{}", error.what()));
    return out;
  }
}

}  // namespace lineshaft::app
