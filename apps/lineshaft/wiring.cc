#include "lineshaft/wiring.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/log.h"
#include "base/thread_team.h"
#include "lineshaft/machine.h"
#include "lineshaft/paths.h"
#include "lineshaft/template_file.h"
#include "lineshaft/terminal.h"
#include "model/spec_loader.h"

namespace lineshaft::app {
namespace {

using recipe::Tokenizer;

void log_warnings(const Tokenizer& tokenizer) {
  for (const std::string& text : tokenizer.warnings()) {
    log_event(Severity::kWarning, "tokenizer", {{"warning", text}});
  }
}

StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_of(const model::GgufFile& file) {
  LS_ASSIGN_OR_RETURN(TokenizerData data, model::load_tokenizer_data(file));
  return recipe::tokenizer_from_data(std::move(data));
}

StatusOr<std::shared_ptr<const Tokenizer>> choose_tokenizer(const Config& config,
                                                            const model::GgufFile& file) {
  return config.model.tokenizer.empty()
             ? tokenizer_of(file)
             : recipe::tokenizer_from_json_file(config.model.tokenizer);
}

// "" when there is none.
StatusOr<std::string> choose_template(const Config& config, const model::GgufFile& file) {
  if (!config.model.chat_template.empty()) return read_template_file(config.model.chat_template);
  const auto text = file.string("tokenizer.chat_template");
  return text.ok() ? std::string(*text) : std::string();
}

// Where this model's packed weights are kept; "" when the user named no folder. The digest inside
// decides whether a file is right, so the name only has to keep models from taking turns.
std::string packed_file(const Config& config, const std::string& model_path) {
  if (config.model.packed_cache.empty()) return {};
  const std::filesystem::path folder(config.model.packed_cache);
  std::error_code error;
  std::filesystem::create_directories(folder, error);   // a failure shows when the file is written
  const auto bytes = std::filesystem::file_size(model_path, error);
  const std::string stem = std::filesystem::path(model_path).stem().string();
  return (folder / fmt::format("{}-{}.lspack", stem, bytes)).string();
}

}  // namespace

StatusOr<std::string> open_chat_template(const Config& config) {
  if (!config.model.chat_template.empty()) return read_template_file(config.model.chat_template);
  LS_ASSIGN_OR_RETURN(const std::string path, resolve_model(config.model.model));
  LS_ASSIGN_OR_RETURN(const auto file, model::GgufFile::open(path));
  return choose_template(config, *file);
}

StatusOr<std::shared_ptr<const Tokenizer>> open_tokenizer(const Config& config) {
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!config.model.tokenizer.empty()) {
    LS_ASSIGN_OR_RETURN(tokenizer, recipe::tokenizer_from_json_file(config.model.tokenizer));
  } else {
    LS_ASSIGN_OR_RETURN(const std::string path, resolve_model(config.model.model));
    LS_ASSIGN_OR_RETURN(const auto file, model::GgufFile::open(path));
    LS_ASSIGN_OR_RETURN(tokenizer, tokenizer_of(*file));
  }
  log_warnings(*tokenizer);
  return tokenizer;
}

StatusOr<OpenModel> open_model(const Config& config) {
  OpenModel out;
  LS_ASSIGN_OR_RETURN(out.path, resolve_model(config.model.model));
  out.name = model_name(config.model.model);
  LS_ASSIGN_OR_RETURN(out.file, model::GgufFile::open(out.path));
  LS_ASSIGN_OR_RETURN(out.spec, model::load_spec(*out.file));
  LS_RETURN_IF_ERROR(model::bind_tensors(*out.file, out.spec).status());
  LS_ASSIGN_OR_RETURN(out.tokenizer, choose_tokenizer(config, *out.file));
  if (out.tokenizer->vocab()->size() > out.spec.vocab) {
    return invalid_argument("the tokenizer has {} tokens, the model {}",
                            out.tokenizer->vocab()->size(), out.spec.vocab);
  }
  log_warnings(*out.tokenizer);
  LS_ASSIGN_OR_RETURN(out.chat_template, choose_template(config, *out.file));
  return out;
}

LoadTalk load_bar() {
  if (!stderr_is_tty()) return {};
  return [last = -1](uint64_t done, uint64_t total) mutable {
    const int percent = total == 0 ? 100 : static_cast<int>(done * 100 / total);
    if (percent == last) return;
    last = percent;
    std::fprintf(stderr, "\rloading %s %3d%%\033[K%s", format_bar(percent / 100.0, 30).c_str(),
                 percent, done == total ? "\r\033[K" : "");
    std::fflush(stderr);
  };
}

StatusOr<LoadedModel> load_model(const Config& config) {
  LS_ASSIGN_OR_RETURN(OpenModel open, open_model(config));
  return load_model(config, std::move(open));
}

StatusOr<LoadedModel> load_model(const Config& config, OpenModel open, const LoadTalk& talk) {
  LoadedModel out;
  out.open = std::move(open);
  const model::ForwardOptions options = forward_options(config);
  if (!kernels::cpu_has(options.isa)) {
    return invalid_argument("--kernels {}: this CPU has no {}", config.model.kernels,
                            config.model.kernels);
  }
  LS_ASSIGN_OR_RETURN(out.plan,
                      plan_memory(*out.open.file, out.open.spec, config, memory_facts()));
  if (out.plan.context_lowered) {
    std::fprintf(stderr,
                 "context lowered to %d tokens (the model could do %d): memory is short; "
                 "--max-context and --kv-memory set it\n",
                 out.plan.context_tokens, out.plan.context_model);
  }
  ThreadTeam team(thread_count(config));
  LS_ASSIGN_OR_RETURN(out.weights,
                      model::Weights::load(out.open.file, out.open.spec, team, talk,
                                           packed_file(config, out.open.path)));
  out.open.spec = out.weights->spec();
  return out;
}

}  // namespace lineshaft::app
