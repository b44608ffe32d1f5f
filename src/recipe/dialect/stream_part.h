// What the writers of Anthropic's and OpenAI's event streams have in common. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace lineshaft::recipe {

// One server-sent event: its name, and its data, which holds the name as "type" too.
struct StreamPart {
  std::string event;
  Json data;
};

// Tokens of one request. Cached ones are part of the prompt, reasoning is part of the completion.
struct TokenUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;
};

// Why an answer ended.
struct AnswerEnd {
  std::string reason;       // "stop", "length", "tool_calls" or "content_filter"
  std::string stop_string;  // the one that ended it; "": none did
  TokenUsage usage;
};

// The id of the call with this index, counted within one answer.
using CallIdMaker = std::function<std::string(int32_t)>;

}  // namespace lineshaft::recipe
