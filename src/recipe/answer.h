// What an answer is made of once it is text again: the common form that replies are written from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "core/token_event.h"

namespace lineshaft::recipe {

// A generated token with its log-probability and the alternatives (descending).
struct AnswerToken {
  TokenId token = 0;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;
  size_t text_offset = 0;  // code points of the answer's text before this token's
};

// One finished choice.
struct Answer {
  int32_t index = 0;
  std::string text;
  std::vector<AnswerToken> tokens;       // filled when logprobs were asked for
  std::string_view finish_reason;        // "stop" or "length"
};

}  // namespace lineshaft::recipe
