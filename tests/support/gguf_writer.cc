#include "support/gguf_writer.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/formats/formats.h"

namespace lineshaft::testing {

using kernels::WeightType;

namespace {

using Bytes = std::vector<std::byte>;

void put(Bytes& out, const void* data, size_t size) {
  const auto* p = static_cast<const std::byte*>(data);
  out.insert(out.end(), p, p + size);
}
template <typename T>
void put(Bytes& out, T value) {
  put(out, &value, sizeof value);
}
void put_string(Bytes& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  put(out, text.data(), text.size());
}
template <typename T>
Bytes array_of(uint32_t type, const std::vector<T>& values) {
  Bytes out;
  put(out, type);
  put(out, static_cast<uint64_t>(values.size()));
  for (const T value : values) put(out, value);
  return out;
}

constexpr uint32_t kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9;

// In (-1, 1), from 24 bits.
float uniform(uint64_t bits) {
  return (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-23f - 1.0f;
}

void put_f16(Bytes& out, size_t at, float value) {
  const uint16_t bits = kernels::f32_to_f16(value);
  std::memcpy(out.data() + at, &bits, sizeof bits);
}

}  // namespace

void GgufWriter::set(std::string_view key, uint32_t type, Bytes value) {
  Bytes entry;
  put(entry, type);
  put(entry, value.data(), value.size());
  entries_[std::string(key)] = std::move(entry);
}

void GgufWriter::set_u32(std::string_view key, uint32_t value) {
  Bytes out;
  put(out, value);
  set(key, kU32, std::move(out));
}
void GgufWriter::set_f32(std::string_view key, float value) {
  Bytes out;
  put(out, value);
  set(key, kF32, std::move(out));
}
void GgufWriter::set_bool(std::string_view key, bool value) {
  Bytes out;
  put(out, static_cast<uint8_t>(value));
  set(key, kBool, std::move(out));
}
void GgufWriter::set_string(std::string_view key, std::string_view value) {
  Bytes out;
  put_string(out, value);
  set(key, kString, std::move(out));
}
void GgufWriter::set_strings(std::string_view key, const std::vector<std::string>& values) {
  Bytes out;
  put(out, kString);
  put(out, static_cast<uint64_t>(values.size()));
  for (const auto& value : values) put_string(out, value);
  set(key, kArray, std::move(out));
}
void GgufWriter::set_i32s(std::string_view key, const std::vector<int32_t>& values) {
  set(key, kArray, array_of(kI32, values));
}
void GgufWriter::set_f32s(std::string_view key, const std::vector<float>& values) {
  set(key, kArray, array_of(kF32, values));
}

void GgufWriter::add_tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t ggml_type,
                            Bytes data) {
  tensors_.push_back({std::string(name), std::move(dims), ggml_type, std::move(data)});
}

Bytes GgufWriter::bytes() const {
  Bytes out;
  put(out, "GGUF", 4);
  put(out, version);
  put(out, static_cast<uint64_t>(tensors_.size()));
  put(out, static_cast<uint64_t>(entries_.size()));
  for (const auto& [key, value] : entries_) {
    put_string(out, key);
    put(out, value.data(), value.size());
  }
  const auto aligned = [&](uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
  uint64_t offset = 0;
  for (const auto& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) put(out, dim);
    put(out, tensor.type);
    put(out, offset);
    offset += aligned(tensor.data.size());
  }
  for (const auto& tensor : tensors_) {
    out.resize(aligned(out.size()));
    put(out, tensor.data.data(), tensor.data.size());
  }
  return out;
}

Bytes random_weights(WeightType type, int64_t rows, int64_t k, float scale, RngKey key) {
  const auto& format = kernels::info(type);
  const int64_t blocks = rows * k / format.block_elements;
  const auto block_bytes = static_cast<size_t>(format.block_bytes);
  Bytes out(static_cast<size_t>(blocks) * block_bytes);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(key.bits(i) & 0xff);
  }
  const RngKey values = key.split(1);
  for (int64_t b = 0; b < blocks; ++b) {
    const size_t at = static_cast<size_t>(b) * block_bytes;
    const float u = 0.75f + 0.25f * uniform(values.bits(static_cast<uint64_t>(b)));
    const float u2 = 0.75f + 0.25f * uniform(values.split(2).bits(static_cast<uint64_t>(b)));
    const float x = scale * 1.7f * uniform(values.bits(static_cast<uint64_t>(b)));
    const auto bf16 = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
    switch (type) {
      case WeightType::kF32: std::memcpy(out.data() + at, &x, sizeof x); break;
      case WeightType::kF16: put_f16(out, at, x); break;
      case WeightType::kBF16: std::memcpy(out.data() + at, &bf16, sizeof bf16); break;
      // Random quants are uniform: scale / (their standard deviation), and a minimum that centres.
      case WeightType::kQ4_0: put_f16(out, at, u * scale / 4.6f); break;
      case WeightType::kQ4_1:
        put_f16(out, at, u * scale / 4.6f);
        put_f16(out, at + 2, -u2 * scale * 1.6f);
        break;
      case WeightType::kQ5_0: put_f16(out, at, u * scale / 9.2f); break;
      case WeightType::kQ5_1:
        put_f16(out, at, u * scale / 9.2f);
        put_f16(out, at + 2, -u2 * scale * 1.6f);
        break;
      case WeightType::kQ8_0: put_f16(out, at, u * scale / 74.0f); break;
      case WeightType::kQ4_K:
        put_f16(out, at, u * scale / 4.6f / 32.0f);
        put_f16(out, at + 2, u2 * scale * 1.6f / 32.0f);
        break;
      case WeightType::kQ5_K:
        put_f16(out, at, u * scale / 9.2f / 32.0f);
        put_f16(out, at + 2, u2 * scale * 1.6f / 32.0f);
        break;
      case WeightType::kQ6_K: put_f16(out, at + 208, u * scale / 18.5f / 74.0f); break;
    }
  }
  return out;
}

TinyModel tiny_model(ModelFamily family, WeightType type, uint64_t seed) {
  TinyModel model;
  model.family = family;
  model.type = type;
  model.seed = seed;
  if (kernels::info(type).block_elements == 256) {
    model.hidden = 256;
    model.heads = 8;
    model.ffn = 256;
  }
  if (family == ModelFamily::kGemma3) {
    model.layers = 6;   // five windowed, one global
    model.heads = model.hidden == 256 ? 8 : 4;
    model.kv_heads = 1;
    model.head_dim = model.hidden == 256 ? 32 : 48;  // 48: heads that are no whole blocks of 32
    if (model.head_dim == 48) model.heads = 2;
  }
  if (family == ModelFamily::kLlama) {
    model.tied = seed % 2 == 0;
    model.rope_factors = seed % 2 == 1;
  }
  return model;
}

namespace {

std::string architecture(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama: return "llama";
    case ModelFamily::kQwen2: return "qwen2";
    case ModelFamily::kQwen3: return "qwen3";
    case ModelFamily::kGemma3: return "gemma3";
  }
  return {};
}

// A code point below 0x800 as UTF-8.
std::string utf8(uint32_t c) {
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
}

// GPT-2's spelling of bytes: printable ones are themselves, the others follow from U+0100.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> out;
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool plain = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    out.push_back(utf8(plain ? b : next++));
  }
  return out;
}

void write_vocab(GgufWriter& writer) {
  std::vector<std::string> tokens{"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(3, 3);
  for (auto& token : byte_tokens()) tokens.push_back(std::move(token));
  const std::vector<std::string> merges{"h e", "t he", "i n", "\xc4\xa0 the", "a n", "an d",
                                        "\xc4\xa0 a"};
  for (const auto& merge : merges) {
    const auto space = merge.find(' ');
    tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  types.resize(tokens.size(), 1);
  while (tokens.size() < static_cast<size_t>(kTinyVocab)) {
    tokens.push_back("<unused" + std::to_string(tokens.size()) + ">");
    types.push_back(5);
  }
  writer.set_string("tokenizer.ggml.model", "gpt2");
  writer.set_string("tokenizer.ggml.pre", "smollm");
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_strings("tokenizer.ggml.merges", merges);
  writer.set_u32("tokenizer.ggml.bos_token_id", 1);
  writer.set_u32("tokenizer.ggml.eos_token_id", 2);
  writer.set_bool("tokenizer.ggml.add_bos_token", false);
}

void write_shape(GgufWriter& writer, const TinyModel& m) {
  const std::string arch = architecture(m.family);
  const auto u32 = [&](const char* key, int32_t value) {
    writer.set_u32(arch + "." + key, static_cast<uint32_t>(value));
  };
  writer.set_string("general.architecture", arch);
  writer.set_string("general.name", "tiny " + arch);
  u32("block_count", m.layers);
  u32("context_length", m.context);
  u32("embedding_length", m.hidden);
  u32("feed_forward_length", m.ffn);
  u32("attention.head_count", m.heads);
  u32("attention.head_count_kv", m.kv_heads);
  u32("attention.key_length", m.head_dim);
  u32("attention.value_length", m.head_dim);
  writer.set_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  writer.set_f32(arch + ".rope.freq_base", 10'000.0f);
  if (m.family == ModelFamily::kGemma3) {
    u32("attention.sliding_window", m.window);
    writer.set_string(arch + ".rope.scaling.type", "linear");
    writer.set_f32(arch + ".rope.scaling.factor", 8.0f);
  }
}

class TensorWriter {
 public:
  TensorWriter(GgufWriter& writer, const TinyModel& model)
      : writer_(writer), model_(model), key_(model.seed) {}

  void matrix(const std::string& name, int32_t rows, int32_t k) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(k));
    writer_.add_tensor(name, {static_cast<uint64_t>(k), static_cast<uint64_t>(rows)},
                       kernels::info(model_.type).gguf_id,
                       random_weights(model_.type, rows, k, scale, key_.split(++count_)));
  }

  void vector(const std::string& name, int32_t n, float middle, float spread) {
    Bytes data;
    const RngKey key = key_.split(++count_);
    for (int32_t i = 0; i < n; ++i) {
      put(data, middle + spread * uniform(key.bits(static_cast<uint64_t>(i))));
    }
    writer_.add_tensor(name, {static_cast<uint64_t>(n)}, 0, std::move(data));
  }

  void layer(int32_t index) {
    const TinyModel& m = model_;
    const std::string at = "blk." + std::to_string(index) + ".";
    const int32_t q_size = m.heads * m.head_dim;
    const int32_t kv_size = m.kv_heads * m.head_dim;
    const bool gemma3 = m.family == ModelFamily::kGemma3;
    vector(at + "attn_norm.weight", m.hidden, 1.0f, 0.3f);
    matrix(at + "attn_q.weight", q_size, m.hidden);
    matrix(at + "attn_k.weight", kv_size, m.hidden);
    matrix(at + "attn_v.weight", kv_size, m.hidden);
    matrix(at + "attn_output.weight", m.hidden, q_size);
    if (m.family == ModelFamily::kQwen2) {
      vector(at + "attn_q.bias", q_size, 0.0f, 0.5f);
      vector(at + "attn_k.bias", kv_size, 0.0f, 0.5f);
      vector(at + "attn_v.bias", kv_size, 0.0f, 0.5f);
    }
    if (m.family == ModelFamily::kQwen3 || gemma3) {
      vector(at + "attn_q_norm.weight", m.head_dim, 1.0f, 0.3f);
      vector(at + "attn_k_norm.weight", m.head_dim, 1.0f, 0.3f);
    }
    if (gemma3) vector(at + "post_attention_norm.weight", m.hidden, 1.0f, 0.3f);
    vector(at + "ffn_norm.weight", m.hidden, 1.0f, 0.3f);
    matrix(at + "ffn_gate.weight", m.ffn, m.hidden);
    matrix(at + "ffn_up.weight", m.ffn, m.hidden);
    matrix(at + "ffn_down.weight", m.hidden, m.ffn);
    if (gemma3) vector(at + "post_ffw_norm.weight", m.hidden, 1.0f, 0.3f);
  }

 private:
  GgufWriter& writer_;
  const TinyModel& model_;
  RngKey key_;
  uint64_t count_ = 0;
};

}  // namespace

Bytes tiny_gguf(const TinyModel& model) {
  GgufWriter writer;
  write_shape(writer, model);
  write_vocab(writer);
  TensorWriter tensors(writer, model);
  tensors.matrix("token_embd.weight", kTinyVocab, model.hidden);
  for (int32_t i = 0; i < model.layers; ++i) tensors.layer(i);
  tensors.vector("output_norm.weight", model.hidden, 1.0f, 0.3f);
  if (!model.tied) tensors.matrix("output.weight", kTinyVocab, model.hidden);
  if (model.rope_factors) tensors.vector("rope_freqs.weight", model.head_dim / 2, 4.0f, 3.0f);
  return writer.bytes();
}

std::shared_ptr<const model::GgufFile> tiny_file(const TinyModel& model) {
  const auto bytes = std::make_shared<Bytes>(tiny_gguf(model));
  auto file = model::GgufFile::parse(*bytes, "tiny.gguf");
  LS_CHECK(file.ok(), "{}", message_of(file.status()));
  return {file->get(), [bytes, held = *file](const model::GgufFile*) {}};
}

}  // namespace lineshaft::testing
