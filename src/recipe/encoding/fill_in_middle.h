// Fill in the middle: a prompt that asks for the text between two others, with the control tokens
// that a model was taught for it. Knows no request.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "recipe/encoding/pieces.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

// The prompt, without a BOS, ending where the middle begins; nullopt: the vocabulary has no tokens
// for it. Known are those of DeepSeek, Qwen, CodeGemma, StarCoder and SantaCoder. Both stay text.
std::optional<std::vector<Piece>> fill_in_middle_pieces(const Tokenizer& tokenizer,
                                                        std::string_view prefix,
                                                        std::string_view suffix);

}  // namespace lineshaft::recipe
