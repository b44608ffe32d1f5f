#include "model/spec_loader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

namespace lineshaft::model {
namespace {

// Bounds far beyond any model; they keep products of sizes inside int32 and int64.
constexpr int64_t kLayersMax = 1024;
constexpr int64_t kHiddenMax = 65'536;
constexpr int64_t kHeadsMax = 1024;
constexpr int64_t kHeadDimMax = 256;      // kernels/backend.h
constexpr int64_t kFfnMax = 1 << 20;
constexpr int64_t kVocabMax = 1 << 22;
constexpr int64_t kContextMax = 1 << 24;
constexpr int32_t kGroupOf = 32;          // activations are quantised by blocks of 32

// Keys under the architecture's prefix that are read, or that change nothing.
constexpr std::string_view kKnownKeys[] = {
    "attention.causal",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.value_length",
    "attn_logit_softcapping",
    "block_count",
    "context_length",
    "embedding_length",
    "expert_count",
    "feed_forward_length",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
    "rope.scaling.type",
    "tensor_data_layout",
    "vocab_size",
};

// The keys of one architecture: "llama" and "block_count" → "llama.block_count".
class Keys {
 public:
  Keys(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  std::string full(std::string_view key) const { return fmt::format("{}.{}", architecture_, key); }
  bool has(std::string_view key) const { return file_.find(full(key)) != nullptr; }

  Status read(std::string_view key, int64_t min, int64_t max, int32_t& out) const {
    LS_ASSIGN_OR_RETURN(const int64_t value, file_.integer(full(key), min, max));
    out = static_cast<int32_t>(value);
    return ok_status();
  }

  Status read_or(std::string_view key, int64_t min, int64_t max, int32_t otherwise,
                 int32_t& out) const {
    if (has(key)) return read(key, min, max, out);
    out = otherwise;
    return ok_status();
  }

  Status read_positive(std::string_view key, double max, float& out) const {
    LS_ASSIGN_OR_RETURN(const double value, file_.real(full(key)));
    if (!(value > 0.0 && value <= max)) {
      return data_loss("{}: key '{}' is {}, expected more than 0, at most {}", file_.name(),
                       full(key), value, max);
    }
    out = static_cast<float>(value);
    return ok_status();
  }

  // Soft-capping of 0 means none.
  Status refuse_nonzero(std::string_view key, std::string_view what) const {
    if (!has(key)) return ok_status();
    LS_ASSIGN_OR_RETURN(const double value, file_.real(full(key)));
    if (value == 0.0) return ok_status();
    return unimplemented("{}: {} is not supported (key '{}')", file_.name(), what, full(key));
  }

  // A key that nobody here understands may change what the model computes.
  Status refuse_unknown() const {
    const std::string prefix = architecture_ + ".";
    for (const auto& entry : file_.entries()) {
      if (!entry.key.starts_with(prefix)) continue;
      if (std::ranges::find(kKnownKeys, entry.key.substr(prefix.size())) == std::end(kKnownKeys)) {
        return unimplemented("{}: key '{}' is not supported: it may change what the model computes",
                             file_.name(), printable(entry.key));
      }
    }
    return ok_status();
  }

  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

StatusOr<ModelFamily> read_family(const GgufFile& file) {
  LS_ASSIGN_OR_RETURN(const auto architecture, file.string("general.architecture"));
  if (architecture == "llama") return ModelFamily::kLlama;
  if (architecture == "qwen2") return ModelFamily::kQwen2;
  if (architecture == "qwen3") return ModelFamily::kQwen3;
  if (architecture == "gemma3") return ModelFamily::kGemma3;
  return unimplemented("{}: architecture '{}' is not supported (llama, qwen2, qwen3, gemma3 are)",
                       file.name(), printable(architecture));
}

Status refuse_unsupported(const Keys& keys) {
  LS_RETURN_IF_ERROR(keys.refuse_nonzero("attn_logit_softcapping", "soft-capping of scores"));
  LS_RETURN_IF_ERROR(keys.refuse_nonzero("final_logit_softcapping", "soft-capping of logits"));
  if (keys.has("expert_count")) {
    LS_ASSIGN_OR_RETURN(const auto experts, keys.file().integer(keys.full("expert_count"), 0));
    if (experts != 0) {
      return unimplemented("{}: mixture of experts is not supported (key '{}' is {})",
                           keys.file().name(), keys.full("expert_count"), experts);
    }
  }
  if (keys.has("attention.causal")) {
    LS_ASSIGN_OR_RETURN(const bool causal, keys.file().boolean(keys.full("attention.causal")));
    if (!causal) {
      return unimplemented("{}: attention that is not causal is not supported (key '{}')",
                           keys.file().name(), keys.full("attention.causal"));
    }
  }
  if (keys.has("tensor_data_layout")) {
    LS_ASSIGN_OR_RETURN(const auto layout, keys.file().string(keys.full("tensor_data_layout")));
    if (layout != "Meta AI original pth") {
      return unimplemented("{}: tensor layout '{}' is not supported (key '{}')",
                           keys.file().name(), printable(layout),
                           keys.full("tensor_data_layout"));
    }
  }
  return keys.refuse_unknown();
}

Status read_sizes(const Keys& keys, ModelSpec& spec) {
  LS_RETURN_IF_ERROR(keys.read("block_count", 1, kLayersMax, spec.layer_count));
  LS_RETURN_IF_ERROR(keys.read("embedding_length", kGroupOf, kHiddenMax, spec.hidden));
  LS_RETURN_IF_ERROR(keys.read("feed_forward_length", kGroupOf, kFfnMax, spec.ffn));
  LS_RETURN_IF_ERROR(keys.read("context_length", 1, kContextMax, spec.context_max));
  LS_RETURN_IF_ERROR(keys.read("attention.head_count", 1, kHeadsMax, spec.heads));
  LS_RETURN_IF_ERROR(
      keys.read_or("attention.head_count_kv", 1, kHeadsMax, spec.heads, spec.kv_heads));
  LS_RETURN_IF_ERROR(keys.read_or("attention.key_length", 1, kHeadDimMax,
                                  spec.hidden / spec.heads, spec.head_dim));
  int32_t value_length = 0;
  LS_RETURN_IF_ERROR(
      keys.read_or("attention.value_length", 1, kHeadDimMax, spec.head_dim, value_length));
  LS_RETURN_IF_ERROR(keys.read_or("rope.dimension_count", 2, kHeadDimMax, spec.head_dim,
                                  spec.rope_dims));
  const auto& name = keys.file().name();
  if (spec.heads % spec.kv_heads != 0) {
    return data_loss("{}: key '{}' is {}, which does not divide the {} heads", name,
                     keys.full("attention.head_count_kv"), spec.kv_heads, spec.heads);
  }
  if (value_length != spec.head_dim) {
    return unimplemented("{}: keys of {} and values of {} elements a head are not supported",
                         name, spec.head_dim, value_length);
  }
  if (spec.head_dim % 16 != 0 || spec.head_dim > kHeadDimMax) {
    return unimplemented("{}: heads of {} elements are not supported (multiples of 16, at most {})",
                         name, spec.head_dim, kHeadDimMax);
  }
  if (spec.rope_dims % 2 != 0 || spec.rope_dims > spec.head_dim) {
    return data_loss("{}: key '{}' is {}, expected an even number of at most {}", name,
                     keys.full("rope.dimension_count"), spec.rope_dims, spec.head_dim);
  }
  for (const int32_t size : {spec.hidden, spec.ffn, spec.q_size()}) {
    if (size % kGroupOf != 0) {
      return unimplemented("{}: rows of {} elements are not supported (multiples of {})", name,
                           size, kGroupOf);
    }
  }
  return keys.read_positive("attention.layer_norm_rms_epsilon", 0.1, spec.norm_epsilon);
}

// vocab from the embedding's rows; the token list, where there is one, must agree.
Status read_vocab(const GgufFile& file, ModelSpec& spec) {
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    return data_loss("{}: tensor 'token_embd.weight' is missing", file.name());
  }
  if (embedding->dims[1] > kVocabMax) {
    return data_loss("{}: tensor 'token_embd.weight' has {} rows, at most {} are possible",
                     file.name(), embedding->dims[1], kVocabMax);
  }
  spec.vocab = static_cast<int32_t>(embedding->dims[1]);
  spec.tied_output = file.find_tensor("output.weight") == nullptr;
  const GgufEntry* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->count != static_cast<uint64_t>(spec.vocab)) {
    return data_loss("{}: key 'tokenizer.ggml.tokens' has {} entries, but 'token_embd.weight' has "
                     "{} rows",
                     file.name(), tokens->count, spec.vocab);
  }
  return ok_status();
}

// 1 / factor of linear scaling; 1 without.
StatusOr<float> read_rope_scale(const Keys& keys) {
  if (!keys.has("rope.scaling.type")) {
    if (!keys.has("rope.scaling.factor")) return 1.0f;
  } else {
    LS_ASSIGN_OR_RETURN(const auto type, keys.file().string(keys.full("rope.scaling.type")));
    if (type == "none") return 1.0f;
    if (type != "linear") {
      return unimplemented("{}: RoPE scaling '{}' is not supported (key '{}')",
                           keys.file().name(), printable(type), keys.full("rope.scaling.type"));
    }
  }
  float factor = 1.0f;
  LS_RETURN_IF_ERROR(keys.read_positive("rope.scaling.factor", 1e6, factor));
  return 1.0f / factor;
}

// Frequencies are divided by these (Llama 3.1 and later store them as a tensor).
Status read_rope_factors(const GgufFile& file, ModelSpec& spec) {
  const GgufTensor* tensor = file.find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return ok_status();
  if (tensor->type != kernels::WeightType::kF32 || tensor->dim_count != 1 ||
      tensor->dims[0] != spec.rope_dims / 2) {
    return data_loss("{}: tensor 'rope_freqs.weight' is not {} numbers of type F32", file.name(),
                     spec.rope_dims / 2);
  }
  spec.rope_factors.resize(static_cast<size_t>(spec.rope_dims / 2));
  std::memcpy(spec.rope_factors.data(), file.data(*tensor).data(), tensor->bytes);
  for (const float factor : spec.rope_factors) {
    if (!(std::isfinite(factor) && factor > 0.0f)) {
      return data_loss("{}: tensor 'rope_freqs.weight' holds {}, expected positive numbers",
                       file.name(), factor);
    }
  }
  return ok_status();
}

// Layers that see a window: every one but each `pattern`-th (6 in Gemma 3), or as listed.
StatusOr<std::vector<bool>> read_windowed_layers(const Keys& keys, int32_t layer_count) {
  constexpr int32_t kPatternGemma3 = 6;
  std::vector<bool> windowed(static_cast<size_t>(layer_count));
  const auto key = keys.full("attention.sliding_window_pattern");
  const GgufEntry* entry = keys.file().find(key);
  if (entry != nullptr && entry->type == GgufType::kArray) {
    LS_ASSIGN_OR_RETURN(const auto list, keys.file().integers(key));
    if (list.size() != windowed.size()) {
      return data_loss("{}: key '{}' has {} entries for {} layers", keys.file().name(), key,
                       list.size(), layer_count);
    }
    for (size_t i = 0; i < list.size(); ++i) windowed[i] = list[i] != 0;
    return windowed;
  }
  int32_t pattern = kPatternGemma3;
  if (entry != nullptr) {
    LS_RETURN_IF_ERROR(
        keys.read("attention.sliding_window_pattern", 1, kLayersMax, pattern));
  }
  for (int32_t i = 0; i < layer_count; ++i) {
    windowed[static_cast<size_t>(i)] = (i + 1) % pattern != 0;
  }
  return windowed;
}

Status read_gemma3(const Keys& keys, const LayerSpec& global, ModelSpec& spec) {
  // Gemma 3's report: scores are scaled by 1 / sqrt(head_dim), in the 27B model (62 layers) by
  // 1 / sqrt(hidden / heads); embeddings by sqrt(hidden).
  constexpr int32_t kLayers27B = 62;
  const int32_t scaled_by =
      spec.layer_count == kLayers27B ? spec.hidden / spec.heads : spec.head_dim;
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(scaled_by));
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.activation = Activation::kGeluTanh;
  spec.qk_norm = true;
  spec.sandwich_norm = true;
  LayerSpec local;
  LS_RETURN_IF_ERROR(keys.read("attention.sliding_window", 1, kContextMax, local.window));
  if (keys.has("rope.freq_base_swa")) {
    LS_RETURN_IF_ERROR(keys.read_positive("rope.freq_base_swa", 1e12, local.rope_base));
  }
  LS_ASSIGN_OR_RETURN(const auto windowed, read_windowed_layers(keys, spec.layer_count));
  for (const bool w : windowed) spec.layers.push_back(w ? local : global);
  return ok_status();
}

Status read_layers(const Keys& keys, ModelSpec& spec) {
  LayerSpec global;
  const bool gemma3 = spec.family == ModelFamily::kGemma3;
  global.rope_base = gemma3 ? 1e6f : 10'000.0f;
  if (keys.has("rope.freq_base")) {
    LS_RETURN_IF_ERROR(keys.read_positive("rope.freq_base", 1e12, global.rope_base));
  }
  LS_ASSIGN_OR_RETURN(global.rope_scale, read_rope_scale(keys));
  if (gemma3) return read_gemma3(keys, global, spec);
  for (const auto key : {"attention.sliding_window", "attention.sliding_window_pattern",
                         "rope.freq_base_swa"}) {
    if (keys.has(key)) {
      return unimplemented("{}: key '{}' is not supported for this architecture",
                           keys.file().name(), keys.full(key));
    }
  }
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
  spec.rope_interleaved = spec.family == ModelFamily::kLlama;
  spec.qkv_bias = spec.family == ModelFamily::kQwen2;
  spec.qk_norm = spec.family == ModelFamily::kQwen3;
  spec.layers.assign(static_cast<size_t>(spec.layer_count), global);
  return ok_status();
}

std::string read_name(const GgufFile& file) {
  const auto name = file.string("general.name");
  if (name.ok() && !name->empty()) return printable(*name);
  return std::filesystem::path(file.name()).stem().string();
}

// An optional token id; nullopt: no such key.
StatusOr<std::optional<TokenId>> read_token(const GgufFile& file, std::string_view key,
                                            size_t vocab) {
  if (file.find(key) == nullptr) return std::optional<TokenId>();
  LS_ASSIGN_OR_RETURN(const int64_t id, file.integer(key));
  // Some writers store -1 for "none", as i32 or as u32.
  if (id == -1 || id == 0xffffffff) return std::optional<TokenId>();
  if (id < 0 || static_cast<uint64_t>(id) >= vocab) {
    return data_loss("{}: key '{}' is {}, but there are {} tokens", file.name(), key, id, vocab);
  }
  return std::optional<TokenId>(static_cast<TokenId>(id));
}

StatusOr<std::optional<bool>> read_flag(const GgufFile& file, std::string_view key) {
  if (file.find(key) == nullptr) return std::optional<bool>();
  LS_ASSIGN_OR_RETURN(const bool value, file.boolean(key));
  return std::optional<bool>(value);
}

Status check_count(const GgufFile& file, std::string_view key, size_t count, size_t tokens) {
  if (count == tokens) return ok_status();
  return data_loss("{}: key '{}' has {} entries for {} tokens", file.name(), key, count, tokens);
}

Status read_token_lists(const GgufFile& file, TokenizerData& data) {
  LS_ASSIGN_OR_RETURN(const auto tokens, file.strings("tokenizer.ggml.tokens"));
  if (tokens.empty()) {
    return data_loss("{}: key 'tokenizer.ggml.tokens' is empty", file.name());
  }
  data.tokens.assign(tokens.begin(), tokens.end());
  if (file.find("tokenizer.ggml.scores") != nullptr) {
    LS_ASSIGN_OR_RETURN(data.scores, file.floats("tokenizer.ggml.scores"));
    LS_RETURN_IF_ERROR(
        check_count(file, "tokenizer.ggml.scores", data.scores.size(), tokens.size()));
  }
  if (file.find("tokenizer.ggml.token_type") != nullptr) {
    LS_ASSIGN_OR_RETURN(const auto types, file.integers("tokenizer.ggml.token_type"));
    LS_RETURN_IF_ERROR(
        check_count(file, "tokenizer.ggml.token_type", types.size(), tokens.size()));
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] < 0 || types[i] > 6) {
        return data_loss("{}: key 'tokenizer.ggml.token_type' is {} for token {}, expected 0 to 6",
                         file.name(), types[i], i);
      }
      data.token_types.push_back(static_cast<int32_t>(types[i]));
    }
  }
  if (file.find("tokenizer.ggml.merges") != nullptr) {
    LS_ASSIGN_OR_RETURN(const auto merges, file.strings("tokenizer.ggml.merges"));
    data.merges.assign(merges.begin(), merges.end());
  }
  return ok_status();
}

}  // namespace

StatusOr<ModelSpec> load_spec(const GgufFile& file) {
  ModelSpec spec;
  LS_ASSIGN_OR_RETURN(spec.family, read_family(file));
  LS_ASSIGN_OR_RETURN(const auto architecture, file.string("general.architecture"));
  const Keys keys(file, std::string(architecture));
  LS_RETURN_IF_ERROR(refuse_unsupported(keys));
  LS_RETURN_IF_ERROR(read_sizes(keys, spec));
  LS_RETURN_IF_ERROR(read_vocab(file, spec));
  LS_RETURN_IF_ERROR(read_layers(keys, spec));
  LS_RETURN_IF_ERROR(read_rope_factors(file, spec));
  spec.name = read_name(file);
  return spec;
}

StatusOr<TokenizerData> load_tokenizer_data(const GgufFile& file) {
  TokenizerData data;
  LS_ASSIGN_OR_RETURN(const auto model, file.string("tokenizer.ggml.model"));
  data.model = std::string(model);
  if (file.find("tokenizer.ggml.pre") != nullptr) {
    LS_ASSIGN_OR_RETURN(const auto pre, file.string("tokenizer.ggml.pre"));
    data.pre = std::string(pre);
  }
  LS_RETURN_IF_ERROR(read_token_lists(file, data));
  const size_t vocab = data.tokens.size();
  LS_ASSIGN_OR_RETURN(data.bos, read_token(file, "tokenizer.ggml.bos_token_id", vocab));
  LS_ASSIGN_OR_RETURN(data.eos, read_token(file, "tokenizer.ggml.eos_token_id", vocab));
  LS_ASSIGN_OR_RETURN(data.eot, read_token(file, "tokenizer.ggml.eot_token_id", vocab));
  LS_ASSIGN_OR_RETURN(data.unknown, read_token(file, "tokenizer.ggml.unknown_token_id", vocab));
  LS_ASSIGN_OR_RETURN(data.add_bos, read_flag(file, "tokenizer.ggml.add_bos_token"));
  LS_ASSIGN_OR_RETURN(data.add_space_prefix, read_flag(file, "tokenizer.ggml.add_space_prefix"));
  return data;
}

}  // namespace lineshaft::model
