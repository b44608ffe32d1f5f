// The fields that OpenAI's Chat Completions and Completions share: how to sample, when to stop, how
// to deliver. Knows neither messages nor prompts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/request.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::recipe {

// What requests are checked against.
struct DialectLimits {
  int32_t vocab = 0;              // token ids lie below it
  int32_t choices_max = 16;
  int32_t top_logprobs_max = 20;
  int32_t stops_max = 16;         // OpenAI says 4, DeepSeek 16
  int32_t stop_bytes_max = 1024;  // of one stop string
  int32_t prompts_max = 256;      // prompts of one completions request
  bool strict = false;            // unknown fields are errors, not warnings
};

// A validated order for text, whatever the prompt.
struct GenerationOrder {
  std::string model;
  SamplingParams sampling;        // max_tokens 0: not given; seed 0: see seed_given
  bool seed_given = false;
  std::vector<std::string> stop;  // not empty strings
  bool stream = false;
  bool include_usage = false;
  Warnings warnings;
};

// Reads all shared fields but n's partner best_of and logprobs, whose forms differ. Errors:
// kInvalidArgument naming the field.
Status read_generation(Fields& body, const DialectLimits& limits, GenerationOrder& order);

}  // namespace lineshaft::recipe
