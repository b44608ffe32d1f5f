// The fields that OpenAI's Chat Completions and Completions share: how to sample, when to stop, how
// to deliver. Knows neither messages nor prompts.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/request.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::recipe {

// What a model's encoder has forms for; a request that needs more is refused by the field.
struct Abilities {
  enum class Images : uint8_t { kRefused, kNamed, kSeen };  // named: shown as words, unchecked

  bool tools = false;
  bool reasoning = false;      // thinking on and off, its effort, reasoning in past turns
  bool answer_forms = false;   // JSON answers
  bool continuation = false;   // an assistant's last turn that the answer goes on from
  bool reminders = false;      // turns of the role latest_reminder
  bool deferred_tools = false;  // tools that a later turn brings
  Images images = Images::kRefused;
  bool fill_in_middle = false;  // the text between two others
  bool thinks_unless_told = true;  // with reasoning: when a request doesn't say
};

// What requests are checked against.
struct DialectLimits {
  int32_t vocab = 0;              // token ids lie below it
  int32_t choices_max = 16;
  int32_t top_logprobs_max = 20;
  int32_t stops_max = 16;         // OpenAI says 4, DeepSeek 16
  int32_t stop_bytes_max = 1024;  // of one stop string
  int32_t prompts_max = 256;      // prompts of one completions request
  int32_t tokens_max = std::numeric_limits<int32_t>::max();  // of an answer
  bool strict = false;            // unknown fields are errors, not warnings
  Abilities abilities = {};
};

// A validated order for text, whatever the prompt.
struct GenerationOrder {
  std::string model;
  SamplingParams sampling;        // max_tokens 0: not given; seed 0: see seed_given
  bool seed_given = false;
  Priority priority = Priority::kNormal;
  std::vector<std::string> stop;  // not empty strings
  bool stream = false;
  bool include_usage = false;
  Warnings warnings;
};

// Reads all shared fields but n's partner best_of and logprobs, whose forms differ. Errors:
// kInvalidArgument naming the field.
Status read_generation(Fields& body, const DialectLimits& limits, GenerationOrder& order);

// Reads the most tokens of an answer from the field `key`; none leaves sampling alone.
Status read_max_tokens(Fields& body, std::string_view key, const DialectLimits& limits,
                       SamplingParams& sampling);

}  // namespace lineshaft::recipe
