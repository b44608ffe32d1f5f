#include "model/attention_plan.h"

#include <algorithm>

namespace lineshaft::model {
namespace {

// Rows of a prompt that one call of attention takes: enough to share loads of K and V among
// queries, few enough that 512 rows divide evenly among ranks although later rows cost more.
constexpr int32_t kRowsOfChunk = 16;

// Queries of a group that one call takes: as many as share a load in the widest kernel.
constexpr int64_t kQueriesOfChunk = 12;

}  // namespace

AttentionPlan::AttentionPlan(const ModelSpec& spec, int32_t block_tokens, int32_t rows_max,
                             int thread_count)
    : heads_(spec.heads),
      kv_heads_(spec.kv_heads),
      block_tokens_(block_tokens),
      thread_count_(thread_count) {
  // Each sequence gives one chunk for kRowsOfChunk rows of a kv head, or one a rank; a group one
  // for kQueriesOfChunk of its queries, at most one for each head of a row.
  const int64_t rows = rows_max;
  chunks_.reserve(static_cast<size_t>((rows / kRowsOfChunk * 2 + 1) * kv_heads_ + rows * heads_ +
                                      4 * thread_count_ * thread_count_));
  sequences_.reserve(static_cast<size_t>(rows));
  first_rows_.reserve(static_cast<size_t>(rows));
  decodes_.reserve(static_cast<size_t>(rows));
}

void AttentionPlan::plan(const ForwardBatch& batch, const AttentionRows& rows,
                         std::span<const Range> logit_runs) {
  logit_runs_ = logit_runs;
  chunks_.clear();
  sequences_.clear();
  first_rows_.clear();
  decodes_.clear();
  const bool few = batch.sequences.size() < 4 * static_cast<size_t>(thread_count_);
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    if (batch.sequences[i].rows == 1) {
      decodes_.push_back(static_cast<int32_t>(i));
      continue;
    }
    add_sequence(batch, rows, static_cast<int32_t>(i));
    plan_sequence(static_cast<int32_t>(sequences_.size()) - 1, few);
  }
  plan_decodes(batch, rows);
}

bool AttentionPlan::wants_logits(Range rows) const {
  return std::ranges::any_of(logit_runs_, [&](const Range& run) {
    return run.begin < rows.end && rows.begin < run.end;
  });
}

void AttentionPlan::add_sequence(const ForwardBatch& batch, const AttentionRows& rows,
                                 int32_t index) {
  const ForwardSequence& s = batch.sequences[static_cast<size_t>(index)];
  kernels::AttentionSequence out;
  out.q = rows.q + s.first_row * rows.q_stride;
  out.q_stride = rows.q_stride;
  out.out = rows.out + s.first_row * rows.out_stride;
  out.out_stride = rows.out_stride;
  out.first = s.first_position;
  out.rows = s.rows;
  out.blocks = batch.blocks.data() + s.blocks_begin;
  sequences_.push_back(out);
  first_rows_.push_back(s.first_row);
}

// Long chunks of a prompt are cut by kv head and rows; short ones stay whole unless there are too
// few sequences to keep all ranks busy.
void AttentionPlan::plan_sequence(int32_t i, bool few) {
  const int64_t rows = sequence(i).rows;
  const int64_t first = first_row(i);
  const int64_t group = heads_ / kv_heads_;
  if (rows < kRowsOfChunk) {
    const bool wanted = wants_logits({first, first + rows});
    const int parts = few ? thread_count_ : 1;
    for (int p = 0; p < parts; ++p) {
      const Range queries = share_of(heads_ * rows, p, parts);
      if (queries.size() > 0) chunks_.push_back({i, 0, 0, queries, wanted});
    }
    return;
  }
  for (int64_t head = 0; head < kv_heads_; ++head) {
    for (int64_t row = 0; row < rows; row += kRowsOfChunk) {
      const int64_t end = std::min<int64_t>(rows, row + kRowsOfChunk);
      const Range queries{(head * rows + row) * group, (head * rows + end) * group};
      chunks_.push_back({i, 0, 0, queries, wants_logits({first + row, first + end})});
    }
  }
}

// Positions of the common beginning of two sequences of one row, in whole blocks and tiles.
int32_t AttentionPlan::shared_positions(const ForwardBatch& batch, int32_t a, int32_t b) const {
  const ForwardSequence& x = batch.sequences[static_cast<size_t>(a)];
  const ForwardSequence& y = batch.sequences[static_cast<size_t>(b)];
  const int32_t limit = std::min(x.first_position, y.first_position);
  const auto* x_blocks = batch.blocks.data() + x.blocks_begin;
  const auto* y_blocks = batch.blocks.data() + y.blocks_begin;
  int32_t shared = 0;
  for (int32_t i = 0; shared < limit && x_blocks[i] == y_blocks[i]; ++i) shared += block_tokens_;
  return std::min(shared, limit) / kernels::kAttentionTile * kernels::kAttentionTile;
}

// Sorted by their blocks, sequences with a common beginning are neighbours. A group takes the next
// one as long as that does not cost it more than half of what it shares.
void AttentionPlan::plan_decodes(const ForwardBatch& batch, const AttentionRows& rows) {
  const auto table = [&](int32_t i) {
    const ForwardSequence& s = batch.sequences[static_cast<size_t>(i)];
    const auto count = static_cast<size_t>(s.first_position / block_tokens_ + 1);
    return std::span(batch.blocks).subspan(static_cast<size_t>(s.blocks_begin), count);
  };
  std::ranges::sort(decodes_, [&](int32_t a, int32_t b) {
    return std::ranges::lexicographical_compare(table(a), table(b), std::less<>());
  });
  for (size_t begin = 0; begin < decodes_.size();) {
    size_t end = begin + 1;
    int32_t shared = 0;
    for (; end < decodes_.size(); ++end) {
      const int32_t next = shared_positions(batch, decodes_[begin], decodes_[end]);
      if (next == 0 || next < shared / 2) break;
      shared = end == begin + 1 ? next : std::min(shared, next);
    }
    plan_group(batch, rows, std::span(decodes_).subspan(begin, end - begin), shared);
    begin = end;
  }
}

// Chunks go kv head by kv head, so that what they share is still in a near cache.
void AttentionPlan::plan_group(const ForwardBatch& batch, const AttentionRows& rows,
                               std::span<int32_t> members, int32_t shared) {
  const auto position = [&](int32_t i) {
    return batch.sequences[static_cast<size_t>(i)].first_position;
  };
  std::ranges::sort(members, std::less<>(), position);
  const auto begin = static_cast<int32_t>(sequences_.size());
  for (const int32_t i : members) add_sequence(batch, rows, i);
  if (members.size() == 1) {
    return plan_sequence(begin, batch.sequences.size() < 4 * static_cast<size_t>(thread_count_));
  }
  bool wanted = false;
  for (const int32_t i : members) {
    const int64_t row = batch.sequences[static_cast<size_t>(i)].first_row;
    wanted = wanted || wants_logits({row, row + 1});
  }
  const int64_t queries = static_cast<int64_t>(members.size()) * (heads_ / kv_heads_);
  const auto parts = static_cast<int>((queries + kQueriesOfChunk - 1) / kQueriesOfChunk);
  for (int32_t head = 0; head < kv_heads_; ++head) {
    for (int p = 0; p < parts; ++p) {
      chunks_.push_back({begin, shared, head, share_of(queries, p, parts), wanted});
    }
  }
}

}  // namespace lineshaft::model
