// OpenAI's replies: whole ones and the chunks of streams, for Chat Completions and Completions, and
// the error body. Reasoning is told as DeepSeek's API does: reasoning_content.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/vocab.h"
#include "recipe/dialect/reply_writer.h"

namespace lineshaft::recipe {

// What all parts of one reply share.
struct ReplyHead {
  std::string id;                     // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;                // unix seconds
  std::string model;                  // as the request named it
  std::string system_fingerprint;
  int32_t choices = 1;
  bool thinking = false;              // answers may hold reasoning
  bool begins_with_reasoning = false;
  bool logprobs = false;
  int32_t top_logprobs = 0;           // alternatives asked for
  bool include_usage = false;         // of a stream: all chunks carry usage, null but in the last
  std::vector<std::string> warnings;  // part of the whole reply or of a stream's first chunk
};

std::unique_ptr<ReplyWriter> make_chat_writer(ReplyHead head, std::shared_ptr<const Vocab> vocab);
std::unique_ptr<ReplyWriter> make_completions_writer(ReplyHead head,
                                                     std::shared_ptr<const Vocab> vocab);

// {"error":{"message","type","param","code"}}; empty param and code become null.
std::string openai_error_body(const ReplyError& error);

// Appends ,"warnings":[...] when there are any.
void append_warnings(std::string& out, const std::vector<std::string>& warnings);

// A token as text for people: its bytes where they are UTF-8, else "bytes:\xe2\x80" as OpenAI
// writes it. Never empty for a token that has bytes.
std::string readable_token(std::string_view bytes);

}  // namespace lineshaft::recipe
