// OpenAI's replies: whole ones and the chunks of streams, for Chat Completions and Completions, and
// the error body. Writes JSON text; knows no HTTP and no server-sent events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/token_event.h"
#include "core/vocab.h"
#include "recipe/answer.h"

namespace lineshaft::recipe {

// What all parts of one reply share.
struct ReplyHead {
  std::string id;                     // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;                // unix seconds
  std::string model;                  // as the request named it
  std::string system_fingerprint;
  bool logprobs = false;
  int32_t top_logprobs = 0;           // alternatives asked for
  bool include_usage = false;         // of a stream: all chunks carry usage, null but in the last
  std::vector<std::string> warnings;  // part of the whole reply or of a stream's first chunk
};

// Every function appends one JSON object to `out`. In a stream: begin() for each choice, then
// delta() any number of times and finish() once for each, then usage() if it was asked for.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;
  virtual void whole(std::string& out, std::span<const Answer> answers, const Usage& usage) = 0;
  virtual void begin(std::string& out, int32_t index) = 0;
  virtual void delta(std::string& out, int32_t index, std::string_view text,
                     std::span<const AnswerToken> tokens) = 0;
  virtual void finish(std::string& out, int32_t index, std::string_view reason) = 0;
  virtual void usage(std::string& out, const Usage& usage) = 0;
};

std::unique_ptr<ReplyWriter> make_chat_writer(ReplyHead head, std::shared_ptr<const Vocab> vocab);
std::unique_ptr<ReplyWriter> make_completions_writer(ReplyHead head,
                                                     std::shared_ptr<const Vocab> vocab);

// {"error":{"message","type","param","code"}}; empty param and code become null.
std::string openai_error_body(std::string_view message, std::string_view type,
                              std::string_view param, std::string_view code);

// A token as text for people: its bytes where they are UTF-8, else "bytes:\xe2\x80" as OpenAI
// writes it. Never empty for a token that has bytes.
std::string readable_token(std::string_view bytes);

}  // namespace lineshaft::recipe
