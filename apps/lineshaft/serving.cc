#include "lineshaft/serving.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/clock.h"
#include "kernels/types.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/scripted_worker.h"
#include "lineshaft/version.h"

namespace lineshaft::app {
namespace {

constexpr int64_t kScriptedContext = 131'072;

std::string family_name(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama: return "llama";
    case ModelFamily::kQwen2: return "qwen2";
    case ModelFamily::kQwen3: return "qwen3";
    case ModelFamily::kGemma3: return "gemma3";
  }
  return "unknown";
}

std::string served_name(const Config& config, const OpenModel& model) {
  return config.serve.served_model_name.empty() ? model.name : config.serve.served_model_name;
}

// What a client may call the model besides its id: the short name, the file's name, the title that
// the file gives itself.
std::vector<std::string> other_names(const std::string& id, const OpenModel& model) {
  std::vector<std::string> names;
  for (const std::string& name :
       {model.name, std::filesystem::path(model.path).stem().string(), model.spec.name}) {
    if (!name.empty() && name != id && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

api::ModelCard model_card(const Config& config, const LoadedModel& model) {
  api::ModelCard card;
  card.id = served_name(config, model.open);
  card.aliases = other_names(card.id, model.open);
  card.created = unix_seconds();
  card.context_tokens = model.plan.context_tokens;
  card.family = family_name(model.open.spec.family);
  card.quantization = weight_format(*model.open.file);
  card.system_fingerprint = "ls-" + version() + "-" + config.model.profile + "-" +
                            model.open.spec.fingerprint.hex().substr(0, 12);
  return card;
}

}  // namespace

api::ServerConfig server_config(const Config& config) {
  const ServeConfig& s = config.serve;
  api::ServerConfig out;
  out.http.host = s.host;
  out.http.port = static_cast<uint16_t>(s.port);
  out.http.connections_max = s.connections_max;
  out.http.tls_cert_file = s.tls_cert;
  out.http.tls_key_file = s.tls_key;
  out.keys_file = s.keys_file;
  out.cors_origins = s.cors_origins;
  out.vllm_metric_names = s.vllm_metrics;
  out.version = version();
  return out;
}

StatusOr<std::shared_ptr<const recipe::ChatEncoder>> chat_encoder(const OpenModel& model) {
  return recipe::make_chat_encoder(model.tokenizer, model.chat_template, model.name,
                                   unix_seconds);
}

StatusOr<recipe::ChatFormat> chat_format(const Config& config,
                                         std::shared_ptr<const recipe::Tokenizer> tokenizer,
                                         std::string_view chat_template, std::string_view name) {
  const std::string& encoding = config.recipe.encoding;
  if (!encoding.empty()) return recipe::chat_format_by_name(encoding, std::move(tokenizer));
  return recipe::chat_format_of_template(std::move(tokenizer), chat_template, name, unix_seconds);
}

std::string weight_format(const model::GgufFile& file) {
  std::array<uint64_t, kernels::kWeightTypeCount> bytes{};
  for (const auto& tensor : file.tensors()) bytes[static_cast<size_t>(tensor.type)] += tensor.bytes;
  size_t most = 0;
  for (size_t i = 1; i < bytes.size(); ++i) {
    if (bytes[i] > bytes[most]) most = i;
  }
  return std::string(kernels::info(static_cast<kernels::WeightType>(most)).name);
}

Serving::Serving(const Config& config)
    : scheme_(config.serve.tls_cert.empty() ? "http" : "https"),
      keys_(!config.serve.keys_file.empty()) {}

Status Serving::open(const Config& config, std::shared_ptr<const recipe::Tokenizer> tokenizer,
                     StatusOr<recipe::ChatFormat> chat, api::ModelCard card) {
  // A name that was asked for is not passed over in silence.
  if (!config.recipe.encoding.empty()) LS_RETURN_IF_ERROR(chat.status());
  chat_ = chat.ok();
  model_name_ = card.id;
  server_ = std::make_unique<api::Server>(server_config(config), *engine_, std::move(tokenizer),
                                          std::move(chat), std::move(card), metrics_);
  LS_ASSIGN_OR_RETURN(address_, server_->start());
  return ok_status();
}

StatusOr<std::unique_ptr<Serving>> Serving::start(const Config& config,
                                                  const LoadedModel& model) {
  ignore_broken_pipes();
  std::unique_ptr<Serving> out(new Serving(config));
  LocalEngine::Options options;
  options.metrics = &out->metrics_;
  LS_ASSIGN_OR_RETURN(out->engine_, LocalEngine::start(model, config, options));
  auto chat = chat_format(config, model.open.tokenizer, model.open.chat_template,
                          model.open.name);
  LS_RETURN_IF_ERROR(
      out->open(config, model.open.tokenizer, std::move(chat), model_card(config, model)));
  return out;
}

StatusOr<std::unique_ptr<Serving>> Serving::start_scripted(const Config& config) {
  ignore_broken_pipes();
  std::unique_ptr<Serving> out(new Serving(config));
  LS_ASSIGN_OR_RETURN(auto tokenizer, open_tokenizer(config));
  LS_ASSIGN_OR_RETURN(Script script, read_script(config.serve.test_script, *tokenizer));
  std::string chat_template;
  if (config.recipe.encoding.empty()) {
    LS_ASSIGN_OR_RETURN(chat_template, open_chat_template(config));
  }
  api::ModelCard card;
  const std::string& name = config.serve.served_model_name;
  card.id = name.empty() ? "scripted" : name;
  card.created = unix_seconds();
  card.context_tokens = static_cast<int32_t>(
      config.memory.max_context > 0 ? config.memory.max_context : kScriptedContext);
  card.family = "scripted";
  card.system_fingerprint = "ls-" + version() + "-scripted";
  LocalEngine::Options options;
  options.metrics = &out->metrics_;
  LS_ASSIGN_OR_RETURN(out->engine_,
                      LocalEngine::start_scripted(std::move(script), tokenizer,
                                                  card.context_tokens, config, options));
  auto chat = chat_format(config, tokenizer, chat_template, card.id);
  LS_RETURN_IF_ERROR(out->open(config, tokenizer, std::move(chat), std::move(card)));
  return out;
}

std::string Serving::curl_line() const {
  const std::string body =
      chat_ ? R"("messages":[{"role":"user","content":"Hi!"}])" : R"("prompt":"Hello")";
  return fmt::format(
      "curl {}/v1/{} -H 'Content-Type: application/json'{} -d '{{\"model\":\"{}\",{}}}'",
      url(), chat_ ? "chat/completions" : "completions",
      keys_ ? " -H \"Authorization: Bearer $LINESHAFT_API_KEY\"" : "", model_name_, body);
}

}  // namespace lineshaft::app
