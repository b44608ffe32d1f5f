#include "api/completion.h"

#include <utility>

#include "api/error_map.h"
#include "api/reply_writers.h"
#include "base/check.h"
#include "base/log.h"
#include "base/utf8.h"
#include "net/sse.h"
#include "recipe/dialect/call_id.h"

namespace lineshaft::api {
namespace {

constexpr std::string_view kRequests = "lineshaft_requests_total";
constexpr std::string_view kRequestsHelp = "requests for text by how they ended";

// What a stream says when it has nothing to say.
std::string_view heartbeat(Dialect dialect) {
  return dialect == Dialect::kMessages ? net::kSsePing : net::kSseHeartbeat;
}

}  // namespace

ApiMetrics::ApiMetrics(Metrics& metrics)
    : finished(metrics.counter(kRequests, kRequestsHelp, {{"result", "ok"}})),
      failed(metrics.counter(kRequests, kRequestsHelp, {{"result", "error"}})),
      cancelled(metrics.counter(kRequests, kRequestsHelp, {{"result", "cancelled"}})) {}

Completion::Completion(const CompletionContext& context, CompletionRequest request)
    : context_(context), request_(std::move(request)), arrival_(context.clock.now()) {
  make_choices();
  ReplyInfo info;
  info.id = request_.id;
  info.request_id = request_.request_id;
  info.created = unix_seconds();
  info.system_fingerprint = context_.orders.card.system_fingerprint;
  info.begins_with_reasoning = begins_with_reasoning_;
  writer_ = make_reply_writer(request_.order, info, context_.orders.tokenizer->vocab());
}

void Completion::make_choices() {
  for (const OrderPart& part : request_.order.parts) {
    for (int32_t n = 0; n < request_.order.generation.sampling.n; ++n) {
      Choice choice{make_stream(part), {}, {}, false};
      choice.answer.index = static_cast<int32_t>(choices_.size());
      choices_.push_back(std::move(choice));
    }
    cached_tokens_.push_back(0);
  }
}

std::unique_ptr<recipe::AnswerStream> Completion::make_stream(const OrderPart& part) {
  const recipe::GenerationOrder& generation = request_.order.generation;
  const auto& vocab = context_.orders.tokenizer->vocab();
  const bool logprobs = generation.sampling.top_logprobs >= 0;
  const auto& conversation = request_.order.conversation;
  if (!conversation || !context_.orders.chat->parser) {
    return recipe::make_content_stream(vocab, generation.stop, logprobs,
                                       count_code_points(part.echo));
  }
  auto parser = context_.orders.chat->parser(*conversation, generation.stop);
  begins_with_reasoning_ = parser->in_reasoning();
  return recipe::make_parsed_stream(vocab, std::move(parser), logprobs);
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

void Completion::flush() {
  std::string out;
  for (const recipe::ReplyEvent& event : events_) net::append_sse(out, event.name, event.data);
  events_.clear();
  if (!out.empty()) request_.responder->write(std::move(out));
}

void Completion::begin_stream() {
  state_ = State::kStreaming;
  net::StreamHead head;
  head.headers = request_.headers;
  head.headers.emplace_back("content-type", "text/event-stream; charset=utf-8");
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  head.heartbeat = heartbeat(request_.order.dialect);
  request_.responder->begin_stream(std::move(head));
  writer_->begin(events_, usage());
  flush();
}

void Completion::on_event(int32_t part, TokenEvent&& event) {
  if (state_ == State::kDone) return;
  const bool failed =
      event.kind == TokenEvent::Kind::kFinish && event.finish == FinishReason::kError;
  // A refusal that comes first is a status line of its own; afterwards it is an event.
  const bool accepted = event.kind == TokenEvent::Kind::kAccepted;
  if (accepted) cached_tokens_[static_cast<size_t>(part)] = event.usage.cached_tokens;
  if (state_ == State::kWaiting && request_.order.generation.stream && !failed) begin_stream();
  switch (event.kind) {
    case TokenEvent::Kind::kAccepted: echo(part); break;
    case TokenEvent::Kind::kToken: on_token(part, std::move(event)); break;
    case TokenEvent::Kind::kFinish: on_finish(part, std::move(event)); break;
  }
}

// The answers of a part begin with what the request wants to be given back.
void Completion::echo(int32_t part) {
  const std::string& text = request_.order.parts[static_cast<size_t>(part)].echo;
  if (text.empty()) return;
  const int32_t n = request_.order.generation.sampling.n;
  for (int32_t i = 0; i < n; ++i) {
    add(choice_of(part, i), {recipe::AnswerEvent::Kind::kContent, text}, {});
  }
  flush();
}

void Completion::on_token(int32_t part, TokenEvent&& event) {
  const int32_t index = event.choice;
  Choice& choice = choice_of(part, index);
  if (choice.done) return;
  if (request_.order.conversation) choice.tokens.push_back(event.token);
  if (take(choice, choice.stream->push(std::move(event)))) {
    context_.sink.cancel_choice(submitted_[static_cast<size_t>(part)], index);
    finish_choice(part, choice, ending_of(choice, false));
  }
  flush();
}

void Completion::on_finish(int32_t part, TokenEvent&& event) {
  if (event.finish == FinishReason::kError) return fail(event.error);
  Choice& choice = choice_of(part, event.choice);
  if (choice.done) return;
  if (event.finish == FinishReason::kCancelled) {
    return fail(unavailable("the server ended this answer"));
  }
  cached_tokens_[static_cast<size_t>(part)] = event.usage.cached_tokens;
  const bool complete = take(choice, choice.stream->finish());
  finish_choice(part, choice,
                ending_of(choice, !complete && event.finish == FinishReason::kLength));
  flush();
}

bool Completion::take(Choice& choice, recipe::AnswerDelta&& delta) {
  using Kind = recipe::AnswerEvent::Kind;
  const auto& conversation = request_.order.conversation;
  const bool one_call = conversation && !conversation->parallel_calls;
  std::span<const recipe::AnswerToken> tokens = delta.tokens;
  std::span<const recipe::AnswerToken> reasoning = delta.reasoning_tokens;
  for (const recipe::AnswerEvent& event : delta.events) {
    if (event.kind == Kind::kCall && one_call && !choice.answer.call_ids.empty()) return true;
    std::span<const recipe::AnswerToken> none;
    auto& own = event.kind == Kind::kContent     ? tokens
                : event.kind == Kind::kReasoning ? reasoning
                                                 : none;
    add(choice, event, std::exchange(own, none));
  }
  // Tokens without a text of their own: one that was cut, or a control token.
  if (!tokens.empty()) add(choice, {Kind::kContent, ""}, tokens);
  return delta.ended;
}

void Completion::add(Choice& choice, const recipe::AnswerEvent& event,
                     std::span<const recipe::AnswerToken> tokens) {
  recipe::Answer& answer = choice.answer;
  const bool call = event.kind == recipe::AnswerEvent::Kind::kCall;
  const bool reasoning = event.kind == recipe::AnswerEvent::Kind::kReasoning;
  answer.add(event, call ? new_call_id(choice) : std::string());
  auto& own = reasoning ? answer.reasoning_tokens : answer.tokens;
  own.insert(own.end(), tokens.begin(), tokens.end());
  if (state_ == State::kStreaming) writer_->event(events_, answer, event, tokens);
}

std::string Completion::new_call_id(const Choice& choice) const {
  const auto call = static_cast<int32_t>(choice.answer.call_ids.size());
  const RngKey draw = context_.chance.split(request_.number)
                          .split(static_cast<uint64_t>(choice.answer.index));
  const auto& conversation = request_.order.conversation;
  const bool unthought = conversation && conversation->thinking &&
                         choice.answer.text_of(recipe::AnswerEvent::Kind::kReasoning).empty();
  const auto place = static_cast<uint64_t>(call) * 2;
  return recipe::make_call_id(call, unthought, draw.bits(place), draw.bits(place + 1));
}

recipe::Ending Completion::ending_of(const Choice& choice, bool cut) const {
  if (choice.stream->stop()) return recipe::Ending::kStopString;
  if (cut) return recipe::Ending::kLength;
  return choice.answer.call_ids.empty() ? recipe::Ending::kStop : recipe::Ending::kCalls;
}

void Completion::finish_choice(int32_t part, Choice& choice, recipe::Ending ending) {
  choice.done = true;
  const auto& turns = context_.orders.turns;
  if (turns != nullptr && request_.order.conversation) {
    const auto& prompt = request_.order.parts[static_cast<size_t>(part)].prompt;
    turns->remember(prompt, choice.tokens, choice.answer);
  }
  choice.answer.ending = ending;
  if (const auto stop = choice.stream->stop()) {
    choice.answer.stop = request_.order.generation.stop[static_cast<size_t>(*stop)];
  }
  if (state_ == State::kStreaming) writer_->finish(events_, choice.answer);
  if (++choices_done_ == choices_.size()) complete();
}

recipe::TokenUsage Completion::usage() const {
  recipe::TokenUsage usage;
  usage.prompt_tokens = request_.order.prompt_tokens();
  for (const int32_t cached : cached_tokens_) usage.cached_tokens += cached;
  for (const Choice& choice : choices_) {
    usage.completion_tokens += choice.stream->token_count();
    usage.reasoning_tokens += choice.stream->reasoning_count();
  }
  return usage;
}

void Completion::complete() {
  const bool streams = state_ == State::kStreaming;
  if (streams) writer_->end(events_, usage());
  std::string whole;
  if (!streams || request_.order.store) {
    std::vector<recipe::Answer> answers;
    for (Choice& choice : choices_) answers.push_back(std::move(choice.answer));
    whole = writer_->whole(answers, usage());
  }
  // Before the last byte: who has a response may go on from it.
  if (request_.order.store) keep(whole);
  if (streams) {
    flush();
    request_.responder->end();
  } else {
    net::HttpResponse response;
    response.headers = request_.headers;
    response.headers.emplace_back("content-type", "application/json");
    response.body = std::move(whole);
    request_.responder->send(std::move(response));
  }
  context_.metrics.finished.add();
  done("ok");
}

void Completion::keep(const std::string& response) const {
  auto json = parse_json(response);
  if (!json.ok()) return;  // larger than what may be read again
  StoredResponse stored;
  stored.id = std::string(id_prefix(Dialect::kResponses)) + request_.id;
  if (request_.key != nullptr) stored.tenant = request_.key->entry().tenant;
  stored.input = request_.order.input;
  stored.response = *std::move(json);
  context_.orders.responses->put(std::move(stored));
}

void Completion::fail(const Status& status) {
  if (state_ == State::kDone) return;
  cancel_all();
  if (state_ == State::kStreaming) {
    writer_->fail(events_, error_form(status, request_.order.dialect).words());
    flush();
    request_.responder->end();
  } else {
    net::HttpResponse response =
        error_response(status, request_.order.dialect, request_.request_id);
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
  for (const Choice& choice : choices_) generated += choice.stream->token_count();
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
