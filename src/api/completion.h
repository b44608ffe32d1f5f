// Completion: one HTTP request for text, from its submission to the last byte of its reply. The one
// path for all dialects, streamed or whole. Lives on the reactor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "api/event_mailbox.h"
#include "api/keys.h"
#include "api/order.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "net/http_server.h"
#include "recipe/answer_stream.h"
#include "recipe/dialect/reply_writer.h"

namespace lineshaft::api {

// The metrics that the API owns; times and token counts are the engine's.
struct ApiMetrics {
  explicit ApiMetrics(Metrics& metrics);
  Counter& finished;
  Counter& failed;
  Counter& cancelled;
};

// What all completions of a server share; outlives their time on the reactor.
struct CompletionContext {
  RequestSink& sink;
  net::HttpServer& http;
  std::shared_ptr<EventMailbox> mailbox;
  const OrderContext& orders;
  RngKey chance;            // for ids of calls
  ApiMetrics& metrics;
  const Clock& clock;
  Duration head_delay_max;  // a stream's head goes out by then, with or without a token
};

// What belongs to one HTTP request.
struct CompletionRequest {
  Order order;
  std::string id;                        // without the dialect's prefix; the request's own
  uint64_t number = 0;                   // the same as a number
  uint64_t seed = 0;                     // given or drawn
  std::string request_id;                // as x-request-id says
  net::HttpHeaders headers;              // for every reply: x-request-id and the like
  std::shared_ptr<net::Responder> responder;
  std::shared_ptr<KeyUse> key;           // begun; nullptr when the server has no keys
  std::shared_ptr<void> ticket;          // the server counts those that are alive
};

class Completion final : public EventReceiver,
                         public std::enable_shared_from_this<Completion> {
 public:
  Completion(const CompletionContext& context, CompletionRequest request);

  // Submits the requests. What the sink refuses becomes the reply. Call once, inside the handler.
  void start();

  void on_event(int32_t part, TokenEvent&& event) override;
  void on_overflow() override;

 private:
  enum class State : uint8_t { kWaiting, kStreaming, kDone };
  struct Choice {
    std::unique_ptr<recipe::AnswerStream> stream;
    recipe::Answer answer;
    std::vector<TokenId> tokens;  // as the model wrote them
    bool done = false;
  };

  void make_choices();
  std::unique_ptr<recipe::AnswerStream> make_stream(const OrderPart& part);
  std::shared_ptr<const Request> make_request(const OrderPart& part) const;
  Choice& choice_of(int32_t part, int32_t choice);
  void begin_stream();
  void echo(int32_t part);
  void on_token(int32_t part, TokenEvent&& event);
  void on_finish(int32_t part, TokenEvent&& event);
  // Takes in what came; true when the answer is complete, whatever comes next.
  bool take(Choice& choice, recipe::AnswerDelta&& delta);
  void add(Choice& choice, const recipe::AnswerEvent& event,
           std::span<const recipe::AnswerToken> tokens);
  std::string new_call_id(const Choice& choice) const;
  recipe::Ending ending_of(const Choice& choice, bool cut) const;
  void finish_choice(int32_t part, Choice& choice, recipe::Ending ending);
  recipe::TokenUsage usage() const;
  void complete();
  void keep(const std::string& response) const;
  void fail(const Status& status);
  void client_gone(std::string_view reason);
  void cancel_all();
  void done(std::string_view result);
  // Writes the events that are ready.
  void flush();

  const CompletionContext& context_;
  CompletionRequest request_;
  bool begins_with_reasoning_ = false;
  std::unique_ptr<recipe::ReplyWriter> writer_;
  recipe::ReplyEvents events_;            // of a stream, not yet written
  State state_ = State::kWaiting;
  const Instant arrival_;
  std::vector<RequestId> submitted_;      // one a part
  std::vector<Choice> choices_;           // parts * n, part by part
  std::vector<int32_t> cached_tokens_;    // of each part
  size_t choices_done_ = 0;
};

}  // namespace lineshaft::api
