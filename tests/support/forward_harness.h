// ForwardHarness: sequences with KV blocks of their own, run through model::Forward step by step
// in whatever cuts a test wants.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "model/forward.h"

namespace lineshaft::testing {

// The weights of a model file; errors end the program.
std::shared_ptr<const model::Weights> load_weights(std::shared_ptr<const model::GgufFile> file);
// The file that environment variable `name` points to; nullptr: it isn't set.
std::shared_ptr<const model::GgufFile> file_from_environment(const char* name);

class ForwardHarness {
 public:
  ForwardHarness(std::shared_ptr<const model::Weights> weights,
                 const model::ForwardOptions& options, int threads);

  // A sequence with room for `positions`; returns its index. Its blocks start filled with NaN, so
  // that reading what was not written shows.
  int add_sequence(int32_t positions);

  // A sequence that begins with the first `shared` positions of `sequence`, in the same blocks;
  // shared is a multiple of the block and already computed.
  int fork(int sequence, int32_t shared, int32_t positions);

  struct Work {
    int sequence = 0;
    std::vector<TokenId> tokens;   // appended at the sequence's end
    bool all_logits = false;       // else of the last row only
  };
  // One step. Logits of the wanted rows in order, [vocab] each.
  std::vector<std::vector<float>> step(const std::vector<Work>& work);

  // The same without copies; logits(i) are valid until the next step.
  void run_step(const std::vector<Work>& work);

  // One sequence, without copies; logits(i) are valid until the next step.
  void extend(int sequence, std::span<const TokenId> tokens, bool all_logits);
  const float* logits(int64_t i) { return forward_.logits(i); }

  int32_t length(int sequence) const { return sequences_[static_cast<size_t>(sequence)].length; }
  const ModelSpec& spec() const { return forward_.spec(); }
  const kernels::Kernels& kernels() const { return kernels::kernels_for(options_.isa); }

 private:
  struct Sequence {
    std::vector<std::byte*> blocks;
    int32_t length = 0;
  };
  void append(int sequence, std::span<const TokenId> tokens, bool all_logits);

  model::ForwardOptions options_;
  ThreadTeam team_;
  model::Forward forward_;
  model::ForwardBatch batch_;
  std::vector<Sequence> sequences_;
  std::vector<model::Buffer<std::byte>> memory_;
};

}  // namespace lineshaft::testing
