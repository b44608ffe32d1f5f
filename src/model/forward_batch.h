// ForwardBatch: the flat arrays of one step. Plain data; owns no KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace lineshaft::model {

// The rows of one sequence: rows [first_row, first_row + rows) of the batch are its positions
// first_position, first_position + 1, … Positions below are in its KV blocks already.
struct ForwardSequence {
  int32_t first_row = 0;
  int32_t rows = 0;              // >= 1
  int32_t first_position = 0;
  int32_t blocks_begin = 0;      // into ForwardBatch::blocks; entry i holds positions
                                 // [i * block_tokens, (i + 1) * block_tokens)
};

struct ForwardBatch {
  std::vector<TokenId> tokens;              // a row's input token
  std::vector<ForwardSequence> sequences;   // cover all rows, in ascending order, no gaps
  std::vector<std::byte*> blocks;           // KV block starts, 64-byte aligned (kv/arena.h)
  std::vector<int32_t> logit_rows;          // rows whose logits are wanted, ascending

  void clear() {
    tokens.clear();
    sequences.clear();
    blocks.clear();
    logit_rows.clear();
  }
};

}  // namespace lineshaft::model
