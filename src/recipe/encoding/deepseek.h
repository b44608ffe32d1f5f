// DeepSeek's prompts of V4 and V4.1: Conversation -> pieces. Facts of the format were measured on
// the public package deepseek-recipe 0.2.0; the golden cases are in tests/golden/recipe.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "recipe/encoding/chat_encoder.h"
#include "recipe/encoding/pieces.h"

namespace lineshaft::recipe {

struct DeepSeekOptions {
  enum class Version : uint8_t { kV4, kV41 };

  Version version = Version::kV4;
  // V4.1: the number in the prompt for each Effort. Data of the checkpoint, not of the format.
  std::array<int, 4> effort_numbers = {50, 75, 75, 100};
  // Whether the eight grounding marks (ref, box, point, polygon and their ends) in an assistant's
  // turns become control tokens. A client that writes such turns can forge them then.
  bool trust_grounding = false;
};

class DeepSeekEncoder final : public ChatEncoder {
 public:
  // kUnimplemented, naming it, when the tokenizer lacks a control token of the format.
  static StatusOr<std::shared_ptr<const DeepSeekEncoder>> make(
      std::shared_ptr<const Tokenizer> tokenizer, DeepSeekOptions options);

  // The prompt; with open_answer it ends where the answer begins: inside the last turn when that is
  // unfinished, after the opened block of calls when a call is required and there is no thinking.
  // Total.
  StatusOr<std::vector<Piece>> pieces(const Conversation& conversation,
                                      bool open_answer = true) const override;

 private:
  DeepSeekEncoder(std::shared_ptr<const Tokenizer> tokenizer, DeepSeekOptions options);

  const DeepSeekOptions options_;
};

}  // namespace lineshaft::recipe
