#include "api/completion.h"

#include <utility>

#include "api/error_map.h"
#include "base/check.h"
#include "base/log.h"
#include "base/utf8.h"
#include "net/sse.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kRequests = "lineshaft_requests_total";
constexpr std::string_view kRequestsHelp = "requests for text by how they ended";

std::unique_ptr<recipe::ReplyWriter> make_writer(const CompletionContext& context,
                                                 const CompletionRequest& request) {
  const bool chat = request.order.dialect == Dialect::kChat;
  const recipe::GenerationOrder& generation = request.order.generation;
  recipe::ReplyHead head;
  head.id = (chat ? "chatcmpl-" : "cmpl-") + request.id;
  head.created = unix_seconds();
  head.model = generation.model;
  head.system_fingerprint = context.system_fingerprint;
  head.logprobs = generation.sampling.top_logprobs >= 0;
  head.top_logprobs = generation.sampling.top_logprobs;
  head.include_usage = generation.include_usage;
  head.warnings = generation.warnings.list();
  return chat ? recipe::make_chat_writer(std::move(head), context.vocab)
              : recipe::make_completions_writer(std::move(head), context.vocab);
}

}  // namespace

ApiMetrics::ApiMetrics(Metrics& metrics)
    : finished(metrics.counter(kRequests, kRequestsHelp, {{"result", "ok"}})),
      failed(metrics.counter(kRequests, kRequestsHelp, {{"result", "error"}})),
      cancelled(metrics.counter(kRequests, kRequestsHelp, {{"result", "cancelled"}})) {}

Completion::Completion(const CompletionContext& context, CompletionRequest request)
    : context_(context),
      request_(std::move(request)),
      writer_(make_writer(context_, request_)),
      arrival_(context.clock.now()) {
  const recipe::GenerationOrder& generation = request_.order.generation;
  const bool logprobs = generation.sampling.top_logprobs >= 0;
  for (const OrderPart& part : request_.order.parts) {
    for (int32_t n = 0; n < generation.sampling.n; ++n) {
      Choice choice{recipe::AnswerStream(context_.vocab, generation.stop, logprobs,
                                         count_code_points(part.echo)), {}, false};
      choice.answer.index = static_cast<int32_t>(choices_.size());
      choice.answer.text = part.echo;
      choices_.push_back(std::move(choice));
    }
    cached_tokens_.push_back(0);
  }
}

std::shared_ptr<const Request> Completion::make_request(const OrderPart& part) const {
  auto request = std::make_shared<Request>();
  request->id = context_.sink.next_id();
  request->prompt = part.prompt;
  request->original_prompt_tokens = static_cast<int32_t>(part.prompt.size());
  request->sampling = request_.order.generation.sampling;
  request->priority = request_.order.generation.priority;
  request->sampling.seed = request_.seed;
  request->sampling.max_tokens = part.max_tokens;
  if (request_.key != nullptr) {
    request->tenant = request_.key->entry().tenant;
    request->cache_salt = request_.key->entry().cache_salt;
  }
  return request;
}

void Completion::start() {
  for (size_t i = 0; i < request_.order.parts.size(); ++i) {
    const auto request = make_request(request_.order.parts[i]);
    const Status taken = context_.sink.submit(
        request, context_.mailbox->listener(shared_from_this(), static_cast<int32_t>(i)));
    if (!taken.ok()) return fail(taken);
    submitted_.push_back(request->id);
  }
  // Runs at once when the client left while its prompt was being read.
  request_.responder->on_disconnect([weak = weak_from_this()](std::string_view reason) {
    if (const auto self = weak.lock()) self->client_gone(reason);
  });
  if (!request_.order.generation.stream) return;
  context_.http.call_after(context_.head_delay_max, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && self->state_ == State::kWaiting) self->begin_stream();
  });
}

Completion::Choice& Completion::choice_of(int32_t part, int32_t choice) {
  const int32_t n = request_.order.generation.sampling.n;
  LS_CHECK(choice >= 0 && choice < n, "an event names choice {} of {}", choice, n);
  return choices_[static_cast<size_t>(part * n + choice)];
}

template <typename Write>
void Completion::send_event(Write write) {
  std::string out = "data: ";
  write(out);
  out += "\n\n";
  request_.responder->write(std::move(out));
}

void Completion::begin_stream() {
  state_ = State::kStreaming;
  net::StreamHead head;
  head.headers = request_.headers;
  head.headers.emplace_back("content-type", "text/event-stream; charset=utf-8");
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  head.heartbeat = net::kSseHeartbeat;
  request_.responder->begin_stream(std::move(head));
  for (const Choice& choice : choices_) {
    const int32_t index = choice.answer.index;
    send_event([&](std::string& out) { writer_->begin(out, index); });
    if (!choice.answer.text.empty()) {
      send_event([&](std::string& out) { writer_->delta(out, index, choice.answer.text, {}); });
    }
  }
}

void Completion::on_event(int32_t part, TokenEvent&& event) {
  if (state_ == State::kDone) return;
  const bool failed =
      event.kind == TokenEvent::Kind::kFinish && event.finish == FinishReason::kError;
  // A refusal that comes first is a status line of its own; afterwards it is an event.
  if (state_ == State::kWaiting && request_.order.generation.stream && !failed) begin_stream();
  switch (event.kind) {
    case TokenEvent::Kind::kAccepted:
      cached_tokens_[static_cast<size_t>(part)] = event.usage.cached_tokens;
      break;
    case TokenEvent::Kind::kToken: on_token(part, std::move(event)); break;
    case TokenEvent::Kind::kFinish: on_finish(part, std::move(event)); break;
  }
}

void Completion::on_token(int32_t part, TokenEvent&& event) {
  const int32_t index = event.choice;
  Choice& choice = choice_of(part, index);
  if (choice.done) return;
  auto delta = choice.stream.push(std::move(event));
  const bool stopped = delta.stopped;
  emit(choice, std::move(delta));
  if (!stopped) return;
  context_.sink.cancel_choice(submitted_[static_cast<size_t>(part)], index);
  finish_choice(choice, "stop");
}

void Completion::on_finish(int32_t part, TokenEvent&& event) {
  if (event.finish == FinishReason::kError) return fail(event.error);
  Choice& choice = choice_of(part, event.choice);
  if (choice.done) return;
  if (event.finish == FinishReason::kCancelled) {
    return fail(unavailable("the server ended this answer"));
  }
  cached_tokens_[static_cast<size_t>(part)] = event.usage.cached_tokens;
  auto delta = choice.stream.finish();
  const bool stop = delta.stopped || event.finish == FinishReason::kStop;
  emit(choice, std::move(delta));
  finish_choice(choice, stop ? "stop" : "length");
}

void Completion::emit(Choice& choice, recipe::AnswerStream::Delta&& delta) {
  if (delta.text.empty() && delta.tokens.empty()) return;
  if (state_ == State::kStreaming) {
    send_event([&](std::string& out) {
      writer_->delta(out, choice.answer.index, delta.text, delta.tokens);
    });
    return;
  }
  choice.answer.text += delta.text;
  for (auto& token : delta.tokens) choice.answer.tokens.push_back(std::move(token));
}

void Completion::finish_choice(Choice& choice, std::string_view reason) {
  choice.done = true;
  choice.answer.finish_reason = reason;
  if (state_ == State::kStreaming) {
    send_event([&](std::string& out) { writer_->finish(out, choice.answer.index, reason); });
  }
  if (++choices_done_ == choices_.size()) complete();
}

void Completion::complete() {
  Usage usage;
  usage.prompt_tokens = static_cast<int32_t>(request_.order.prompt_tokens());
  for (const int32_t cached : cached_tokens_) usage.cached_tokens += cached;
  for (const Choice& choice : choices_) usage.generated_tokens += choice.stream.token_count();
  if (state_ == State::kStreaming) {
    if (request_.order.generation.include_usage) {
      send_event([&](std::string& out) { writer_->usage(out, usage); });
    }
    request_.responder->write(std::string(net::kSseDone));
    request_.responder->end();
  } else {
    std::vector<recipe::Answer> answers;
    for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
    net::HttpResponse response;
    response.headers = request_.headers;
    response.headers.emplace_back("content-type", "application/json");
    writer_->whole(response.body, answers, usage);
    request_.responder->send(std::move(response));
  }
  context_.metrics.finished.add();
  done("ok");
}

void Completion::fail(const Status& status) {
  if (state_ == State::kDone) return;
  cancel_all();
  if (state_ == State::kStreaming) {
    send_event([&](std::string& out) { out += error_body(status); });
    request_.responder->end();
  } else {
    net::HttpResponse response = error_response(status);
    response.headers.insert(response.headers.end(), request_.headers.begin(),
                            request_.headers.end());
    request_.responder->send(std::move(response));
  }
  context_.metrics.failed.add();
  done(message_of(status));
}

void Completion::on_overflow() {
  fail(unavailable("the server is too busy to pass this answer on"));
}

void Completion::client_gone(std::string_view reason) {
  if (state_ == State::kDone) return;
  cancel_all();
  context_.metrics.cancelled.add();
  done(reason);
}

void Completion::cancel_all() {
  for (const RequestId id : submitted_) context_.sink.cancel(id);
}

void Completion::done(std::string_view result) {
  state_ = State::kDone;
  int64_t generated = 0;
  for (const Choice& choice : choices_) generated += choice.stream.token_count();
  const Instant now = context_.clock.now();
  const int64_t prompt = request_.order.prompt_tokens();
  if (request_.key != nullptr) request_.key->end(generated, now);
  log_event(Severity::kInfo, "request_done",
            {{"request_id", request_.id},
             {"engine_request", submitted_.empty() ? 0 : submitted_.front().value},
             {"seed", request_.seed},
             {"prompt_tokens", prompt},
             {"generated_tokens", generated},
             {"seconds", (now - arrival_).in_seconds()},
             {"result", result}});
  request_.ticket.reset();
}

}  // namespace lineshaft::api
