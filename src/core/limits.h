// Limits: every upper bound of the serving core. Pools and queues are sized from these at start.
#pragma once

#include <cstdint>

namespace lineshaft {

struct Limits {
  int32_t block_tokens = 128;       // positions a KV block; tests may use 16
  int32_t kv_blocks = 0;            // blocks in the arena
  int32_t context_tokens = 0;       // prompt + generated tokens of one sequence
  int32_t sequences_max = 64;       // running at once
  int32_t queue_max = 256;          // requests waiting for admission
  int32_t step_tokens_max = 512;    // rows in one step: sizes activations and plans
  int32_t choices_max = 16;         // n of one request
  int32_t top_logprobs_max = 20;    // alternatives reported a token

  // Entries a plan's flat block list can need: every running sequence at full length.
  int64_t plan_blocks_max() const {
    const int64_t per_sequence = (context_tokens + block_tokens - 1) / block_tokens;
    return per_sequence * sequences_max;
  }
};

}  // namespace lineshaft
