// TokenizerData: a tokenizer as a model file describes it, before anything is derived from it.
// Plain data: room `model` fills it from GGUF metadata, room `recipe` builds a Tokenizer from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"

namespace lineshaft {

// Field by field the keys tokenizer.ggml.* of a GGUF file (ggml docs/gguf.md), unchecked.
struct TokenizerData {
  std::string model;                  // .model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::optional<std::string> pre;     // .pre: name of the pre-tokenizer; nullopt when missing
  std::vector<std::string> tokens;    // .tokens: as spelled in the file, index = id
  std::vector<float> scores;          // .scores: one a token for "llama"; may be empty for "gpt2"
  std::vector<int32_t> token_types;   // .token_type: 1 normal, 2 unknown, 3 control,
                                      // 4 user-defined, 5 unused, 6 byte; empty: all normal
  std::vector<std::string> merges;    // .merges: "left right", best first; empty for "llama"
  std::optional<TokenId> bos;         // .bos_token_id
  std::optional<TokenId> eos;         // .eos_token_id
  std::optional<TokenId> eot;         // .eot_token_id (end of turn)
  std::optional<TokenId> unknown;     // .unknown_token_id
  std::optional<bool> add_bos;        // .add_bos_token
  std::optional<bool> add_space_prefix;  // .add_space_prefix; "llama" files mean true when missing
};

}  // namespace lineshaft
