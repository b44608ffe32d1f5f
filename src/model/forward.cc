#include "model/forward.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace lineshaft::model {

using kernels::PackedMatrix;
using kernels::Profile;

namespace {

// Columns of a feed-forward layer are shared out in pairs of tiles of 16, so that a rank can
// quantise what it has computed (blocks of 32) without waiting for the others.
constexpr int64_t kTile = 16;
constexpr int64_t kGroup = RowBuffer::kGroup;

// In a step of at most this many rows each rank norms and quantises all rows for itself.
int64_t private_rows_max(int thread_count) { return thread_count > 1 ? 2 * thread_count : 0; }

// Int8 digits of a matrix's input, but for down projections; 0: f32.
int input_digits(Profile profile) {
  return profile == Profile::kCpuF32 ? 0 : profile == Profile::kCpuInt8 ? 2 : 1;
}
int down_digits(Profile profile) { return profile == Profile::kCpuF32 ? 0 : 2; }

// Calls work(r) for the rows of `runs` that lie within `within`.
template <typename Work>
void for_rows(std::span<const Range> runs, Range within, const Work& work) {
  for (const Range& run : runs) {
    const int64_t end = std::min(run.end, within.end);
    for (int64_t r = std::max(run.begin, within.begin); r < end; ++r) work(r);
  }
}

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

kernels::AttentionShape attention_shape(const ModelSpec& spec, int32_t layer,
                                        kernels::KvType kv_type, int32_t block_tokens) {
  kernels::AttentionShape shape;
  shape.heads = spec.heads;
  shape.kv_heads = spec.kv_heads;
  shape.head_dim = spec.head_dim;
  shape.block_tokens = block_tokens;
  shape.window = spec.layers[static_cast<size_t>(layer)].window;
  shape.scale = spec.attention_scale;
  shape.kv_type = kv_type;
  shape.layer_offset = kernels::kv_layer_bytes(shape) * layer;
  return shape;
}

int64_t kv_block_bytes(const ModelSpec& spec, kernels::KvType kv_type, int32_t block_tokens) {
  return kernels::kv_layer_bytes(attention_shape(spec, 0, kv_type, block_tokens)) *
         spec.layer_count;
}

Forward::Forward(std::shared_ptr<const Weights> weights, const ForwardOptions& options,
                 int thread_count)
    : weights_(std::move(weights)),
      options_(options),
      thread_count_(thread_count),
      kernels_(kernels::kernels_for(options.isa)),
      attention_plan_(spec(), options.block_tokens, options.step_tokens_max, thread_count),
      next_chunk_(weights_->layers().size()) {
  LS_CHECK(options_.step_tokens_max >= 1 && options_.logit_rows_max >= 1 && thread_count >= 1);
  LS_CHECK(options_.block_tokens >= 16 && options_.block_tokens % 16 == 0);
  const ModelSpec& s = spec();
  const int64_t rows = options_.step_tokens_max;
  const int64_t private_rows = std::min(rows, private_rows_max(thread_count_));
  const int digits = input_digits(options_.profile), fine = down_digits(options_.profile);
  shared_ = Residual(rows, s.hidden, digits);
  for (int i = 0; i < thread_count_; ++i) {
    private_.emplace_back(private_rows, s.hidden, digits);
    attention_scratch_.emplace_back(
        kernels::attention_scratch_floats(attention_shape(s, 0, options_.kv_type,
                                                          options_.block_tokens)));
  }
  q_ = ProductBuffer(rows, s.q_size());
  k_ = ProductBuffer(rows, s.kv_size());
  v_ = ProductBuffer(rows, s.kv_size());
  attended_ = RowBuffer(rows, s.q_size(), digits);
  projected_ = ProductBuffer(rows, s.hidden);
  gate_ = ProductBuffer(rows, s.ffn);
  up_ = ProductBuffer(rows, s.ffn);
  activated_ = RowBuffer(rows, s.ffn, fine);
  logits_stride_ = round_up(s.vocab, kTile);
  head_input_ = RowBuffer(options_.logit_rows_max, s.hidden, digits);
  logits_ = Buffer<float>(options_.logit_rows_max * logits_stride_);
  row_sequence_.reserve(static_cast<size_t>(rows));
  logit_runs_.reserve(static_cast<size_t>(options_.logit_rows_max));
  make_layers();
}

Forward::~Forward() = default;

int64_t activation_bytes(const ModelSpec& s, const ForwardOptions& options, int thread_count) {
  const auto floats = [](int64_t n) { return static_cast<int64_t>(Buffer<float>::bytes_of(n)); };
  const int64_t rows = options.step_tokens_max;
  const int digits = input_digits(options.profile), fine = down_digits(options.profile);
  const auto residual = [&](int64_t n) {
    return floats(n * s.hidden) + floats(s.hidden) + RowBuffer::bytes(n, s.hidden, digits);
  };
  const int64_t private_rows = std::min(rows, private_rows_max(thread_count));
  const auto shape = attention_shape(s, 0, options.kv_type, options.block_tokens);
  int64_t bytes = residual(rows);
  bytes += thread_count * (residual(private_rows) +
                           floats(kernels::attention_scratch_floats(shape)));
  bytes += ProductBuffer::bytes(rows, s.q_size()) + 2 * ProductBuffer::bytes(rows, s.kv_size());
  bytes += RowBuffer::bytes(rows, s.q_size(), digits) + ProductBuffer::bytes(rows, s.hidden);
  bytes += 2 * ProductBuffer::bytes(rows, s.ffn) + RowBuffer::bytes(rows, s.ffn, fine);
  bytes += RowBuffer::bytes(options.logit_rows_max, s.hidden, digits);
  const int64_t logits = round_up(s.vocab, kTile);
  return bytes + floats(options.logit_rows_max * logits);
}

void Forward::make_layers() {
  const ModelSpec& s = spec();
  for (int32_t i = 0; i < s.layer_count; ++i) {
    const LayerWeights& w = weights_->layers()[static_cast<size_t>(i)];
    Layer layer;
    layer.weights = &w;
    layer.shape = attention_shape(s, i, options_.kv_type, options_.block_tokens);
    layer.rope = rope_index(s.layers[static_cast<size_t>(i)]);
    layer.quantise_qkv = quantises(w.q) || quantises(w.k) || quantises(w.v);
    layer.quantise_output = quantises(w.output);
    layer.quantise_ffn = quantises(w.gate) || quantises(w.up);
    layer.quantise_down = quantises(w.down);
    layers_.push_back(layer);
  }
}

bool Forward::quantises(const PackedMatrix& matrix) const {
  return options_.profile != Profile::kCpuF32 && kernels::info(matrix.type()).quantised;
}

int32_t Forward::rope_index(const LayerSpec& layer) {
  for (size_t i = 0; i < ropes_.size(); ++i) {
    if (ropes_[i].base == layer.rope_base && ropes_[i].scale == layer.rope_scale) {
      return static_cast<int32_t>(i);
    }
  }
  const ModelSpec& s = spec();
  const int32_t pairs = s.rope_dims / 2;
  Rope rope;
  rope.base = layer.rope_base;
  rope.scale = layer.rope_scale;
  rope.inv_freq = Buffer<double>(pairs);
  rope.cos = Buffer<float>(static_cast<int64_t>(options_.step_tokens_max) * pairs);
  rope.sin = Buffer<float>(static_cast<int64_t>(options_.step_tokens_max) * pairs);
  kernels::rope_inv_freq(rope.base, s.rope_dims,
                         {rope.inv_freq.get(), static_cast<size_t>(pairs)});
  for (size_t i = 0; i < s.rope_factors.size(); ++i) rope.inv_freq.get()[i] /= s.rope_factors[i];
  ropes_.push_back(std::move(rope));
  return static_cast<int32_t>(ropes_.size()) - 1;
}

void Forward::check(const ThreadTeam& team, const ForwardBatch& batch) const {
  LS_CHECK(team.count() == thread_count_);
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  LS_CHECK(rows >= 1 && rows <= options_.step_tokens_max, "{} rows", rows);
  LS_CHECK(batch.logit_rows.size() <= static_cast<size_t>(options_.logit_rows_max));
  int64_t next = 0;
  for (const auto& s : batch.sequences) {
    LS_CHECK(s.first_row == next && s.rows >= 1 && s.first_position >= 0);
    next += s.rows;
    const int64_t blocks = (s.first_position + s.rows - 1) / options_.block_tokens + 1;
    LS_CHECK(s.blocks_begin >= 0 &&
             s.blocks_begin + blocks <= static_cast<int64_t>(batch.blocks.size()));
  }
  LS_CHECK(next == rows);
  int64_t previous = -1;
  for (const int32_t r : batch.logit_rows) {
    LS_CHECK(r > previous && r < rows);
    previous = r;
  }
}

void Forward::plan_step(const ForwardBatch& batch) {
  rows_ = static_cast<int64_t>(batch.tokens.size());
  row_sequence_.clear();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    row_sequence_.insert(row_sequence_.end(), static_cast<size_t>(batch.sequences[i].rows),
                         static_cast<int32_t>(i));
  }
  for (auto& next : next_chunk_) next.store(0, std::memory_order_relaxed);
  plan_logit_runs(batch);
  attention_plan_.plan(batch, {q_.row(0), q_.width, attended_.row(0), attended_.width},
                       logit_runs_);
}

void Forward::plan_logit_runs(const ForwardBatch& batch) {
  logit_runs_.clear();
  for (const int32_t r : batch.logit_rows) {
    if (!logit_runs_.empty() && logit_runs_.back().end == r) {
      ++logit_runs_.back().end;
    } else {
      logit_runs_.push_back({r, r + 1});
    }
  }
}

Forward::Rank Forward::rank_view(int rank, int64_t rows) {
  Rank view;
  view.index = rank;
  view.count = thread_count_;
  view.shared = rows > private_rows_max(thread_count_);
  view.rows = view.shared ? share_of(rows, rank, thread_count_) : Range{0, rows};
  const auto i = static_cast<size_t>(rank);
  view.residual = view.shared ? &shared_ : &private_[i];
  view.scratch = private_[i].scratch.get();
  view.attention_scratch = attention_scratch_[i].get();
  return view;
}

void Forward::run(ThreadTeam& team, const ForwardBatch& batch) {
  check(team, batch);
  plan_step(batch);
  // Passed by reference: a std::function of it would allocate.
  const auto body = [&](int rank) { run_rank(team, batch, rank); };
  team.run(std::cref(body));
}

void Forward::run_rank(ThreadTeam& team, const ForwardBatch& batch, int index) {
  const Rank rank = rank_view(index, rows_);
  embed(rank, batch);
  for (int32_t i = 0; i < spec().layer_count; ++i) run_layer(team, batch, rank, i);
  project_logits(team, batch, rank);
}

// One decoder layer. Between two barriers a rank writes only outputs of its own. Of the last layer
// the rows that want no logits need K and V only.
void Forward::run_layer(ThreadTeam& team, const ForwardBatch& batch, const Rank& rank,
                        int32_t index) {
  const Layer& layer = layers_[static_cast<size_t>(index)];
  const LayerWeights& w = *layer.weights;
  const Range all{0, rows_};
  const RowRuns rows = index + 1 < spec().layer_count ? RowRuns(&all, 1) : RowRuns(logit_runs_);
  norm_rows(rank, w.attention_norm, layer.quantise_qkv, {&all, 1});
  if (rank.shared) team.barrier();
  project_qkv(rank, layer);
  team.barrier();
  prepare_heads(rank, batch, layer);
  team.barrier();
  attend(rank, index);
  team.barrier();
  if (layer.quantise_output && spec().head_dim % kGroup != 0) {
    quantise_attended(rank, rows);
    team.barrier();
  }
  multiply(w.output, attended_, rank.share_of_tiles(w.output), rows, projected_);
  team.barrier();
  add_projected(rank, w.post_attention_norm, rows);
  norm_rows(rank, w.ffn_norm, layer.quantise_ffn, rows);
  if (rank.shared) team.barrier();
  feed_forward(rank, layer, rows);
  team.barrier();
  multiply(w.down, activated_, rank.share_of_tiles(w.down), rows, projected_);
  team.barrier();
  add_projected(rank, w.post_ffn_norm, rows);
}

// Embedding rows and the angles of the step's positions.
void Forward::embed(const Rank& rank, const ForwardBatch& batch) {
  const ModelSpec& s = spec();
  for (int64_t r = rank.rows.begin; r < rank.rows.end; ++r) {
    float* x = rank.residual->x.get() + r * s.hidden;
    weights_->embedding_row(batch.tokens[static_cast<size_t>(r)], x);
    if (s.embedding_scale != 1.0f) kernels_.scale(x, s.embedding_scale, s.hidden);
  }
  const Range share = share_of(rows_, rank.index, thread_count_);
  const int64_t pairs = s.rope_dims / 2;
  for (auto& rope : ropes_) {
    for (int64_t r = share.begin; r < share.end; ++r) {
      const auto& sequence = batch.sequences[static_cast<size_t>(
          row_sequence_[static_cast<size_t>(r)])];
      const int32_t position =
          sequence.first_position + static_cast<int32_t>(r) - sequence.first_row;
      kernels::rope_angles(position, {rope.inv_freq.get(), static_cast<size_t>(pairs)},
                           rope.scale, rope.cos.get() + r * pairs, rope.sin.get() + r * pairs);
    }
  }
}

void Forward::norm_rows(const Rank& rank, const std::vector<float>& weight, bool quantise,
                        RowRuns rows) {
  const int64_t hidden = spec().hidden;
  Residual& residual = *rank.residual;
  for_rows(rows, rank.rows, [&](int64_t r) {
    kernels_.rms_norm(residual.x.get() + r * hidden, weight.data(), spec().norm_epsilon, hidden,
                      residual.normed.row(r));
    if (quantise) residual.normed.quantise(kernels_, r, 0, hidden);
  });
}

// Tiles of y = x * matrix^T for `rows`; x is quantised where the matrix takes that.
void Forward::multiply(const PackedMatrix& matrix, const RowBuffer& x, Range tiles, RowRuns rows,
                       ProductBuffer& y) {
  if (tiles.size() <= 0) return;
  for (const Range& run : rows) {
    kernels_.matmul(matrix, activations(matrix, x), run, tiles, y.f32.get(), y.width);
  }
}

kernels::ActivationRows Forward::activations(const PackedMatrix& matrix,
                                             const RowBuffer& x) const {
  if (!quantises(matrix)) return {x.f32.get(), x.width, nullptr, nullptr, x.width};
  return {x.f32.get(), x.width, x.digits == 1 ? x.q1.get() : nullptr,
          x.digits == 2 ? x.q2.get() : nullptr, x.width};
}

// The three projections as one list of tiles, so that one cut balances all.
void Forward::project_qkv(const Rank& rank, const Layer& layer) {
  const LayerWeights& w = *layer.weights;
  const int64_t total = w.q.tile_count() + w.k.tile_count() + w.v.tile_count();
  const Range share = share_of(total, rank.index, thread_count_);
  const Range rows{0, rows_};
  int64_t begin = 0;
  const auto part = [&](const PackedMatrix& matrix, ProductBuffer& y) {
    const int64_t count = matrix.tile_count();
    const Range tiles{std::clamp<int64_t>(share.begin - begin, 0, count),
                      std::clamp<int64_t>(share.end - begin, 0, count)};
    multiply(matrix, rank.residual->normed, tiles, {&rows, 1}, y);
    begin += count;
  };
  part(w.q, q_);
  part(w.k, k_);
  part(w.v, v_);
}

void Forward::norm_heads(float* x, int32_t heads, const std::vector<float>& weight) const {
  const int32_t dim = spec().head_dim;
  for (int32_t h = 0; h < heads; ++h) {
    kernels_.rms_norm(x + h * dim, weight.data(), spec().norm_epsilon, dim, x + h * dim);
  }
}

// Bias, head norms and rotation of q and k; then K and V go to their slots (house law N5: what
// attention reads is what is stored).
void Forward::prepare_heads(const Rank& rank, const ForwardBatch& batch, const Layer& layer) {
  const ModelSpec& s = spec();
  const LayerWeights& w = *layer.weights;
  const Rope& rope = ropes_[static_cast<size_t>(layer.rope)];
  const int64_t pairs = s.rope_dims / 2;
  const Range share = share_of(rows_, rank.index, thread_count_);
  for (int64_t r = share.begin; r < share.end; ++r) {
    float* q = q_.row(r);
    float* k = k_.row(r);
    float* v = v_.row(r);
    if (s.qkv_bias) {
      kernels_.add(q, w.q_bias.data(), s.q_size());
      kernels_.add(k, w.k_bias.data(), s.kv_size());
      kernels_.add(v, w.v_bias.data(), s.kv_size());
    }
    if (s.qk_norm) {
      norm_heads(q, s.heads, w.q_norm);
      norm_heads(k, s.kv_heads, w.k_norm);
    }
    const float* cos = rope.cos.get() + r * pairs;
    const float* sin = rope.sin.get() + r * pairs;
    kernels_.rope(q, s.heads, s.head_dim, s.rope_dims, s.rope_interleaved, cos, sin);
    kernels_.rope(k, s.kv_heads, s.head_dim, s.rope_dims, s.rope_interleaved, cos, sin);
    const auto& sequence =
        batch.sequences[static_cast<size_t>(row_sequence_[static_cast<size_t>(r)])];
    const int64_t position = sequence.first_position + r - sequence.first_row;
    const int64_t block = sequence.blocks_begin + position / options_.block_tokens;
    kernels_.store_kv(layer.shape, batch.blocks[static_cast<size_t>(block)],
                      static_cast<int32_t>(position % options_.block_tokens), k, v);
  }
}

// Ranks take chunks as they get free: a row's cost grows with its position.
void Forward::attend(const Rank& rank, int32_t layer_index) {
  const Layer& layer = layers_[static_cast<size_t>(layer_index)];
  auto& next = next_chunk_[static_cast<size_t>(layer_index)];
  const std::span<const AttentionChunk> chunks = attention_plan_.chunks();
  const bool last = layer_index + 1 == spec().layer_count;
  while (true) {
    const auto i = static_cast<size_t>(next.fetch_add(1, std::memory_order_relaxed));
    if (i >= chunks.size()) return;
    const AttentionChunk& chunk = chunks[i];
    if (last && !chunk.wanted) continue;
    const kernels::AttentionSequence& sequence = attention_plan_.sequence(chunk.sequence);
    if (chunk.shared > 0) {
      kernels_.attention_shared(layer.shape, &sequence, chunk.shared, chunk.kv_head, chunk.queries,
                                rank.attention_scratch);
    } else {
      kernels_.attention(layer.shape, sequence, chunk.queries, rank.attention_scratch);
    }
    if (layer.quantise_output && spec().head_dim % kGroup == 0) quantise_heads(chunk);
  }
}

// The heads of a chunk, while they are in cache; needs heads of whole blocks.
void Forward::quantise_heads(const AttentionChunk& chunk) {
  const int64_t group = spec().heads / spec().kv_heads;
  const int64_t dim = spec().head_dim;
  const int64_t rows = attention_plan_.sequence(chunk.sequence).rows;
  for (int64_t i = chunk.queries.begin; i < chunk.queries.end; ++i) {
    const int64_t member = i % group;
    if (chunk.shared > 0) {
      const auto index = static_cast<int32_t>(i / group);
      const int64_t row = attention_plan_.first_row(chunk.sequence + index);
      attended_.quantise(kernels_, row, (chunk.kv_head * group + member) * dim, dim);
      continue;
    }
    const int64_t row = attention_plan_.first_row(chunk.sequence) + i / group % rows;
    const int64_t head = i / group / rows * group + member;
    attended_.quantise(kernels_, row, head * dim, dim);
  }
}

void Forward::quantise_attended(const Rank& rank, RowRuns rows) {
  for_rows(rows, share_of(rows_, rank.index, thread_count_),
           [&](int64_t r) { attended_.quantise(kernels_, r, 0, attended_.width); });
}

// x += projected, through its own norm where the family has one.
void Forward::add_projected(const Rank& rank, const std::vector<float>& post_norm, RowRuns rows) {
  const int64_t hidden = spec().hidden;
  for_rows(rows, rank.rows, [&](int64_t r) {
    const float* add = projected_.row(r);
    if (!post_norm.empty()) {
      kernels_.rms_norm(add, post_norm.data(), spec().norm_epsilon, hidden, rank.scratch);
      add = rank.scratch;
    }
    kernels_.add(rank.residual->x.get() + r * hidden, add, hidden);
  });
}

// Gate, up, activation and quantisation of this rank's columns.
void Forward::feed_forward(const Rank& rank, const Layer& layer, RowRuns rows) {
  const LayerWeights& w = *layer.weights;
  const Range groups = share_of(spec().ffn / kGroup, rank.index, thread_count_);
  if (groups.size() == 0) return;
  const Range tiles{groups.begin * (kGroup / kTile), groups.end * (kGroup / kTile)};
  multiply(w.gate, rank.residual->normed, tiles, rows, gate_);
  multiply(w.up, rank.residual->normed, tiles, rows, up_);
  const auto activate = spec().activation == Activation::kSilu ? kernels_.silu_mul
                                                               : kernels_.gelu_tanh_mul;
  const int64_t first = groups.begin * kGroup;
  const int64_t count = groups.size() * kGroup;
  for_rows(rows, {0, rows_}, [&](int64_t r) {
    activate(gate_.row(r) + first, up_.row(r) + first, count, activated_.row(r) + first);
    if (layer.quantise_down) activated_.quantise(kernels_, r, first, count);
  });
}

// The last norm and the vocabulary projection, for the rows that want logits only.
void Forward::project_logits(ThreadTeam& team, const ForwardBatch& batch, const Rank& rank) {
  const auto wanted = static_cast<int64_t>(batch.logit_rows.size());
  if (wanted == 0) return;
  const int64_t hidden = spec().hidden;
  const bool quantise = quantises(weights_->output());
  // In a small step every rank has all rows: rank i takes the i-th share of the wanted ones.
  const Range share =
      rank.shared ? Range{0, wanted} : share_of(wanted, rank.index, thread_count_);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t r = batch.logit_rows[static_cast<size_t>(i)];
    if (r < rank.rows.begin || r >= rank.rows.end) continue;
    kernels_.rms_norm(rank.residual->x.get() + r * hidden, weights_->output_norm().data(),
                      spec().norm_epsilon, hidden, head_input_.row(i));
    if (quantise) head_input_.quantise(kernels_, i, 0, hidden);
  }
  team.barrier();
  const PackedMatrix& head = weights_->output();
  const Range tiles = rank.share_of_tiles(head);
  if (tiles.size() <= 0) return;
  kernels_.matmul(head, activations(head, head_input_), {0, wanted}, tiles, logits_.get(),
                  logits_stride_);
}

}  // namespace lineshaft::model
