// Completion: one HTTP request for text, from its submission to the last byte of its reply. The one
// path for both dialects, streamed or whole. Lives on the reactor thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/event_mailbox.h"
#include "api/keys.h"
#include "api/order.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "net/http_server.h"
#include "recipe/answer_stream.h"
#include "recipe/dialect/openai_reply.h"

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
  std::shared_ptr<const Vocab> vocab;
  std::string system_fingerprint;
  ApiMetrics& metrics;
  const Clock& clock;
  Duration head_delay_max;  // a stream's head goes out by then, with or without a token
};

// What belongs to one HTTP request.
struct CompletionRequest {
  Order order;
  std::string id;                        // without "chatcmpl-"
  uint64_t seed = 0;                     // given or drawn
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
    recipe::AnswerStream stream;
    recipe::Answer answer;
    bool done = false;
  };

  std::shared_ptr<const Request> make_request(const OrderPart& part) const;
  Choice& choice_of(int32_t part, int32_t choice);
  void begin_stream();
  void on_token(int32_t part, TokenEvent&& event);
  void on_finish(int32_t part, TokenEvent&& event);
  void emit(Choice& choice, recipe::AnswerStream::Delta&& delta);
  void finish_choice(Choice& choice, std::string_view reason);
  void complete();
  void fail(const Status& status);
  void client_gone(std::string_view reason);
  void cancel_all();
  void done(std::string_view result);
  // Sends one event made by `write`.
  template <typename Write>
  void send_event(Write write);

  const CompletionContext& context_;
  CompletionRequest request_;
  std::unique_ptr<recipe::ReplyWriter> writer_;
  State state_ = State::kWaiting;
  const Instant arrival_;
  std::vector<RequestId> submitted_;      // one a part
  std::vector<Choice> choices_;           // parts * n, part by part
  std::vector<int32_t> cached_tokens_;    // of each part
  size_t choices_done_ = 0;
};

}  // namespace lineshaft::api
