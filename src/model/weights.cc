#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "kernels/formats/formats.h"
#include "model/packed_file.h"

namespace lineshaft::model {
namespace {

using kernels::PackedMatrix;

// Bytes digested at a time by one rank: small enough to share one large tensor among ranks.
constexpr uint64_t kDigestBytes = 4 << 20;

// Finds tensors, checks shapes, and remembers which were asked for.
class Binder {
 public:
  explicit Binder(const GgufFile& file) : file_(file) {}

  // [rows, cols], or [cols] when rows is 0.
  StatusOr<const GgufTensor*> find(const std::string& name, int64_t cols, int64_t rows) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      return data_loss("{}: tensor '{}' is missing", file_.name(), name);
    }
    const bool matrix = rows > 0;
    if (tensor->dim_count != (matrix ? 2 : 1) || tensor->dims[0] != cols ||
        (matrix && tensor->dims[1] != rows)) {
      return data_loss("{}: tensor '{}' has shape {}, expected {}", file_.name(), name,
                       shape_text(*tensor),
                       matrix ? fmt::format("[{}, {}]", cols, rows) : fmt::format("[{}]", cols));
    }
    seen_.insert(tensor);
    return tensor;
  }

  Status refuse_others() const {
    for (const auto& tensor : file_.tensors()) {
      if (seen_.contains(&tensor) || tensor.name == "rope_freqs.weight") continue;
      return unimplemented("{}: tensor '{}' is not supported for this architecture",
                           file_.name(), printable(tensor.name));
    }
    return ok_status();
  }

 private:
  static std::string shape_text(const GgufTensor& tensor) {
    std::string text = "[";
    for (int32_t d = 0; d < tensor.dim_count; ++d) {
      text += fmt::format("{}{}", d == 0 ? "" : ", ", tensor.dims[static_cast<size_t>(d)]);
    }
    return text + "]";
  }

  const GgufFile& file_;
  std::unordered_set<const GgufTensor*> seen_;
};

Status bind_layer(Binder& binder, const ModelSpec& spec, int32_t index, LayerTensors& out) {
  struct Wanted {
    bool there;
    const char* name;
    int64_t cols;
    int64_t rows;
    const GgufTensor*& slot;
  };
  const int64_t hidden = spec.hidden;
  const Wanted wanted[] = {
      {true, "attn_norm.weight", hidden, 0, out.attention_norm},
      {true, "attn_q.weight", hidden, spec.q_size(), out.q},
      {true, "attn_k.weight", hidden, spec.kv_size(), out.k},
      {true, "attn_v.weight", hidden, spec.kv_size(), out.v},
      {spec.qkv_bias, "attn_q.bias", spec.q_size(), 0, out.q_bias},
      {spec.qkv_bias, "attn_k.bias", spec.kv_size(), 0, out.k_bias},
      {spec.qkv_bias, "attn_v.bias", spec.kv_size(), 0, out.v_bias},
      {spec.qk_norm, "attn_q_norm.weight", spec.head_dim, 0, out.q_norm},
      {spec.qk_norm, "attn_k_norm.weight", spec.head_dim, 0, out.k_norm},
      {true, "attn_output.weight", spec.q_size(), hidden, out.output},
      {spec.sandwich_norm, "post_attention_norm.weight", hidden, 0, out.post_attention_norm},
      {true, "ffn_norm.weight", hidden, 0, out.ffn_norm},
      {true, "ffn_gate.weight", hidden, spec.ffn, out.gate},
      {true, "ffn_up.weight", hidden, spec.ffn, out.up},
      {true, "ffn_down.weight", spec.ffn, hidden, out.down},
      {spec.sandwich_norm, "post_ffw_norm.weight", hidden, 0, out.post_ffn_norm},
  };
  for (const auto& w : wanted) {
    if (!w.there) continue;
    LS_ASSIGN_OR_RETURN(w.slot,
                        binder.find(fmt::format("blk.{}.{}", index, w.name), w.cols, w.rows));
  }
  return ok_status();
}

}  // namespace

StatusOr<ModelTensors> bind_tensors(const GgufFile& file, const ModelSpec& spec) {
  Binder binder(file);
  ModelTensors out;
  LS_ASSIGN_OR_RETURN(out.embedding, binder.find("token_embd.weight", spec.hidden, spec.vocab));
  LS_ASSIGN_OR_RETURN(out.output_norm, binder.find("output_norm.weight", spec.hidden, 0));
  out.output = out.embedding;
  if (!spec.tied_output) {
    LS_ASSIGN_OR_RETURN(out.output, binder.find("output.weight", spec.hidden, spec.vocab));
  }
  out.layers.resize(static_cast<size_t>(spec.layer_count));
  for (int32_t i = 0; i < spec.layer_count; ++i) {
    LS_RETURN_IF_ERROR(bind_layer(binder, spec, i, out.layers[static_cast<size_t>(i)]));
  }
  LS_RETURN_IF_ERROR(binder.refuse_others());
  return out;
}

int64_t packed_bytes(const ModelTensors& tensors) {
  const auto bytes = [](const GgufTensor* t) {
    return PackedMatrix::bytes_of(t->type, t->dims[1], t->dims[0]);
  };
  int64_t sum = bytes(tensors.output);
  for (const auto& layer : tensors.layers) {
    for (const auto* tensor : {layer.q, layer.k, layer.v, layer.output, layer.gate, layer.up,
                               layer.down}) {
      sum += bytes(tensor);
    }
  }
  return sum;
}

// Packs tensor after tensor with the whole team; digests in passing, while the bytes are in cache.
class Weights::Loader {
 public:
  // packed: nullptr, or where packed matrices may be read from.
  Loader(Weights& weights, ThreadTeam& team, const LoadProgress& progress,
         PackedFileReader* packed)
      : weights_(weights),
        file_(*weights.file_),
        team_(team),
        progress_(progress),
        packed_(packed) {
    for (const auto& tensor : file_.tensors()) bytes_total_ += tensor.bytes;
  }

  void load(const ModelTensors& tensors) {
    weights_.embedding_ = tensors.embedding;
    weights_.layers_.resize(tensors.layers.size());
    for (size_t i = 0; i < tensors.layers.size(); ++i) {
      load_layer(tensors.layers[i], weights_.layers_[i]);
    }
    vector(tensors.output_norm, weights_.output_norm_);
    matrix(tensors.output, weights_.output_);
    if (tensors.output != tensors.embedding) skip(*tensors.embedding);
    if (const auto* factors = file_.find_tensor("rope_freqs.weight")) skip(*factors);
    LS_CHECK(bytes_done_ == bytes_total_);
    weights_.spec_.fingerprint = fingerprint();
  }

  // Whether every matrix came from the packed file, whole and in order.
  bool all_read() const { return packed_ != nullptr; }

 private:
  void load_layer(const LayerTensors& from, LayerWeights& to) {
    vector(from.attention_norm, to.attention_norm);
    matrix(from.q, to.q);
    matrix(from.k, to.k);
    matrix(from.v, to.v);
    vector(from.q_bias, to.q_bias);
    vector(from.k_bias, to.k_bias);
    vector(from.v_bias, to.v_bias);
    vector(from.q_norm, to.q_norm);
    vector(from.k_norm, to.k_norm);
    matrix(from.output, to.output);
    vector(from.post_attention_norm, to.post_attention_norm);
    vector(from.ffn_norm, to.ffn_norm);
    matrix(from.gate, to.gate);
    matrix(from.up, to.up);
    matrix(from.down, to.down);
    vector(from.post_ffn_norm, to.post_ffn_norm);
  }

  void vector(const GgufTensor* from, std::vector<float>& to) {
    if (from == nullptr) return;
    to.resize(static_cast<size_t>(from->dims[0]));
    kernels::dequantise_row(from->type, file_.data(*from).data(), from->dims[0], to.data());
    skip(*from);
  }

  void matrix(const GgufTensor* from, PackedMatrix& to) {
    const auto bytes = file_.data(*from);
    to = PackedMatrix(from->type, from->dims[1], from->dims[0], memory_);
    std::vector<uint64_t> digests((bytes.size() + kDigestBytes - 1) / kDigestBytes);
    if (packed_ != nullptr && !packed_->read(to, team_)) packed_ = nullptr;
    const bool pack = packed_ == nullptr;
    team_.run([&](int rank) {
      if (pack) to.pack_tiles(bytes, share_of(to.tile_count(), rank, team_.count()));
      digest_share(bytes, digests, share_of(static_cast<int64_t>(digests.size()), rank,
                                            team_.count()));
    });
    finish(*from, digests);
  }

  // A tensor that stays in the map (or was copied already): digest only.
  void skip(const GgufTensor& tensor) {
    const auto bytes = file_.data(tensor);
    std::vector<uint64_t> digests((bytes.size() + kDigestBytes - 1) / kDigestBytes);
    digest_share(bytes, digests, {0, static_cast<int64_t>(digests.size())});
    finish(tensor, digests);
  }

  static void digest_share(std::span<const std::byte> bytes, std::vector<uint64_t>& digests,
                           Range share) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    for (int64_t i = share.begin; i < share.end; ++i) {
      const uint64_t begin = static_cast<uint64_t>(i) * kDigestBytes;
      const uint64_t count = std::min<uint64_t>(kDigestBytes, bytes.size() - begin);
      digests[static_cast<size_t>(i)] = xxh64({data + begin, count});
    }
  }

  void finish(const GgufTensor& tensor, const std::vector<uint64_t>& digests) {
    hash_.update(fmt::format("{} {} {} {} {} {}\n", tensor.name, kernels::info(tensor.type).name,
                             tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3]));
    hash_.update({reinterpret_cast<const uint8_t*>(digests.data()),
                  digests.size() * sizeof(uint64_t)});
    file_.drop_pages(tensor);
    bytes_done_ += tensor.bytes;
    if (progress_) progress_(bytes_done_, bytes_total_);
  }

  // Everything that KV depends on besides tokens, profile and KV type.
  Hash128 fingerprint() {
    const ModelSpec& s = weights_.spec_;
    hash_.update(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
                             static_cast<int>(s.family), s.layer_count, s.hidden, s.heads,
                             s.kv_heads, s.head_dim, s.ffn, s.vocab, s.norm_epsilon,
                             s.attention_scale, s.embedding_scale, static_cast<int>(s.activation),
                             s.rope_dims, s.rope_interleaved, s.tied_output));
    for (const auto& layer : s.layers) {
      hash_.update(fmt::format("{} {} {}\n", layer.window, layer.rope_base, layer.rope_scale));
    }
    const auto digest = hash_.finish();
    Hash128 out;
    std::copy_n(digest.begin(), out.bytes.size(), out.bytes.begin());
    return out;
  }

  Weights& weights_;
  const GgufFile& file_;
  ThreadTeam& team_;
  const LoadProgress& progress_;
  PackedFileReader* packed_;   // nullptr from the first matrix on that it could not give
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
  kernels::PackedMemory memory_;
  Sha256 hash_;
};

StatusOr<std::shared_ptr<const Weights>> Weights::load(std::shared_ptr<const GgufFile> file,
                                                       ModelSpec spec, ThreadTeam& team,
                                                       const LoadProgress& progress,
                                                       const std::string& packed_file) {
  LS_ASSIGN_OR_RETURN(const auto tensors, bind_tensors(*file, spec));
  std::shared_ptr<Weights> weights(new Weights);
  weights->file_ = std::move(file);
  weights->spec_ = std::move(spec);
  const auto packed = packed_file.empty() ? nullptr : PackedFileReader::open(packed_file);
  if (packed != nullptr) {
    Loader loader(*weights, team, progress, packed.get());
    loader.load(tensors);
    if (loader.all_read() && weights->spec_.fingerprint == packed->fingerprint()) return weights;
  }
  // Matrices of another model may be among what was read: all of them are packed.
  Loader(*weights, team, progress, nullptr).load(tensors);
  if (!packed_file.empty()) {
    const Status saved = weights->save_packed(packed_file);
    if (!saved.ok()) {
      log_event(Severity::kWarning, "packed weights not saved",
                {{"error", std::string(message_of(saved))}});
    }
  }
  return weights;
}

Status Weights::save_packed(const std::string& path) const {
  LS_ASSIGN_OR_RETURN(const auto writer, PackedFileWriter::create(path));
  for (const LayerWeights& layer : layers_) {
    for (const auto* matrix : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate,
                               &layer.up, &layer.down}) {
      LS_RETURN_IF_ERROR(writer->add(*matrix));
    }
  }
  LS_RETURN_IF_ERROR(writer->add(output_));
  return writer->finish(spec_.fingerprint);
}

void Weights::embedding_row(TokenId token, float* out) const {
  LS_CHECK(token >= 0 && token < spec_.vocab, "token {}", token);
  const uint64_t row_bytes = embedding_->bytes / static_cast<uint64_t>(spec_.vocab);
  const auto data = file_->data(*embedding_);
  kernels::dequantise_row(embedding_->type, data.data() + row_bytes * static_cast<uint64_t>(token),
                          spec_.hidden, out);
}

}  // namespace lineshaft::model
