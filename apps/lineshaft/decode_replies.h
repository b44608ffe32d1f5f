// DecodedReply: what decode shows of one answer: the events of a stream and the whole reply, in the
// form of one dialect. Ids and times are fixed, so that the same input gives the same reply.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "recipe/dialect/stream_part.h"
#include "recipe/parser/answer_parser.h"

namespace lineshaft::app {

// How the answer begins.
struct ReplyStart {
  bool thinking = false;               // it may hold reasoning
  bool begins_with_reasoning = false;
  bool include_usage = false;
  std::string fingerprint;
};

class DecodedReply {
 public:
  virtual ~DecodedReply() = default;
  // `usage` is that of the prompt.
  virtual void begin(const ReplyStart& start, const recipe::TokenUsage& usage) = 0;
  // `logprobs` in OpenAI's form, an empty array when there are none.
  virtual void next(const recipe::AnswerEvent& event, const Json& logprobs) = 0;
  virtual void finish(const recipe::AnswerEnd& end) = 0;
  // {"events": [{"event", "data"}, …], "final": …}
  virtual Json take() = 0;
};

// `dialect` is chat, responses or messages; `request` outlives the reply.
std::unique_ptr<DecodedReply> make_decoded_reply(std::string_view dialect, const Json& request,
                                                 recipe::CallIdMaker new_call_id);

}  // namespace lineshaft::app
