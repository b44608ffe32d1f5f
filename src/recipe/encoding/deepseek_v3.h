// DeepSeek's prompts of V3 (December 2024), R1 and V3.1, as the makers' templates have them. These
// have no form for definitions of tools. The ids of V3.1's and R1's <think> are the tokenizer's.
#pragma once

#include <memory>
#include <vector>

#include "recipe/encoding/chat_encoder.h"
#include "recipe/encoding/pieces.h"

namespace lineshaft::recipe {

enum class DeepSeekV3Version : uint8_t { kV3, kR1, kV31 };

class DeepSeekV3Encoder final : public ChatEncoder {
 public:
  // kUnimplemented, naming it, when the tokenizer lacks a control token of the format.
  static StatusOr<std::shared_ptr<const DeepSeekV3Encoder>> make(
      std::shared_ptr<const Tokenizer> tokenizer, DeepSeekV3Version version);

  // The prompt; pure, so that it can be had without a tokenizer.
  static std::vector<Piece> pieces_of(const Conversation& conversation, DeepSeekV3Version version,
                                      bool open_answer = true);

  StatusOr<std::vector<Piece>> pieces(const Conversation& conversation,
                                      bool open_answer = true) const override;

 private:
  DeepSeekV3Encoder(std::shared_ptr<const Tokenizer> tokenizer, DeepSeekV3Version version);

  const DeepSeekV3Version version_;
};

}  // namespace lineshaft::recipe
