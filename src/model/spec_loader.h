// Spec loader: GGUF metadata → ModelSpec and TokenizerData, every key checked for type and range.
//
// Reads no weights. What is not supported (an architecture, a kind of RoPE scaling, soft-capping,
// experts) is refused by name rather than computed wrongly.
#pragma once

#include "base/status.h"
#include "core/model_spec.h"
#include "core/tokenizer_data.h"
#include "model/gguf.h"

namespace lineshaft::model {

// Families: llama, qwen2, qwen3, gemma3 (general.architecture). The fingerprint is left zero
// (weights.h sets it). kDataLoss names a key that is missing, of another type or out of range;
// kUnimplemented names what is not supported.
StatusOr<ModelSpec> load_spec(const GgufFile& file);

// The tokenizer.ggml.* keys, checked against each other in size but not in meaning.
StatusOr<TokenizerData> load_tokenizer_data(const GgufFile& file);

}  // namespace lineshaft::model
