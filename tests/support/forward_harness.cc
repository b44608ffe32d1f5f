#include "support/forward_harness.h"

#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "model/spec_loader.h"

namespace lineshaft::testing {

std::shared_ptr<const model::Weights> load_weights(std::shared_ptr<const model::GgufFile> file) {
  auto spec = model::load_spec(*file);
  LS_CHECK(spec.ok(), "{}", message_of(spec.status()));
  ThreadTeam team(2);
  auto weights = model::Weights::load(std::move(file), *spec, team);
  LS_CHECK(weights.ok(), "{}", message_of(weights.status()));
  return *weights;
}

std::shared_ptr<const model::GgufFile> file_from_environment(const char* name) {
  const char* path = std::getenv(name);
  if (path == nullptr || *path == '\0') return nullptr;
  auto file = model::GgufFile::open(path);
  LS_CHECK(file.ok(), "{}", message_of(file.status()));
  return *file;
}

ForwardHarness::ForwardHarness(std::shared_ptr<const model::Weights> weights,
                               const model::ForwardOptions& options, int threads)
    : options_(options), team_(threads), forward_(std::move(weights), options, threads) {}

int ForwardHarness::add_sequence(int32_t positions) {
  const int64_t bytes =
      model::kv_block_bytes(spec(), options_.kv_type, options_.block_tokens);
  Sequence sequence;
  for (int32_t p = 0; p < positions; p += options_.block_tokens) {
    memory_.emplace_back(bytes);
    std::memset(memory_.back().get(), 0xff, static_cast<size_t>(bytes));
    sequence.blocks.push_back(memory_.back().get());
  }
  sequences_.push_back(std::move(sequence));
  return static_cast<int>(sequences_.size()) - 1;
}

int ForwardHarness::fork(int sequence, int32_t shared, int32_t positions) {
  LS_CHECK(shared % options_.block_tokens == 0 && shared <= length(sequence));
  const int index = add_sequence(positions - shared);
  const Sequence& from = sequences_[static_cast<size_t>(sequence)];
  Sequence& to = sequences_[static_cast<size_t>(index)];
  to.blocks.insert(to.blocks.begin(), from.blocks.begin(),
                   from.blocks.begin() + shared / options_.block_tokens);
  to.length = shared;
  return index;
}

void ForwardHarness::append(int index, std::span<const TokenId> tokens, bool all_logits) {
  Sequence& sequence = sequences_[static_cast<size_t>(index)];
  model::ForwardSequence rows;
  rows.first_row = static_cast<int32_t>(batch_.tokens.size());
  rows.rows = static_cast<int32_t>(tokens.size());
  rows.first_position = sequence.length;
  rows.blocks_begin = static_cast<int32_t>(batch_.blocks.size());
  sequence.length += rows.rows;
  batch_.tokens.insert(batch_.tokens.end(), tokens.begin(), tokens.end());
  const auto blocks = (sequence.length - 1) / options_.block_tokens + 1;
  LS_CHECK(static_cast<size_t>(blocks) <= sequence.blocks.size());
  batch_.blocks.insert(batch_.blocks.end(), sequence.blocks.begin(),
                       sequence.blocks.begin() + blocks);
  batch_.sequences.push_back(rows);
  const int32_t end = rows.first_row + rows.rows;
  for (int32_t r = all_logits ? rows.first_row : end - 1; r < end; ++r) {
    batch_.logit_rows.push_back(r);
  }
}

void ForwardHarness::run_step(const std::vector<Work>& work) {
  batch_.clear();
  for (const auto& w : work) append(w.sequence, w.tokens, w.all_logits);
  forward_.run(team_, batch_);
}

std::vector<std::vector<float>> ForwardHarness::step(const std::vector<Work>& work) {
  run_step(work);
  std::vector<std::vector<float>> out;
  for (size_t i = 0; i < batch_.logit_rows.size(); ++i) {
    const float* row = forward_.logits(static_cast<int64_t>(i));
    out.emplace_back(row, row + spec().vocab);
  }
  return out;
}

void ForwardHarness::extend(int sequence, std::span<const TokenId> tokens, bool all_logits) {
  batch_.clear();
  append(sequence, tokens, all_logits);
  forward_.run(team_, batch_);
}

}  // namespace lineshaft::testing
