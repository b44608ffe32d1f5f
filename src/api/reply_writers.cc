#include "api/reply_writers.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "recipe/dialect/logprobs.h"
#include "recipe/dialect/messages_answer.h"
#include "recipe/dialect/openai_reply.h"
#include "recipe/dialect/responses_answer.h"

namespace lineshaft::api {
namespace {

using recipe::Answer;
using recipe::AnswerEvent;
using recipe::AnswerToken;
using recipe::ReplyEvents;
using recipe::StreamPart;
using recipe::TokenUsage;

recipe::AnswerEnd end_of(const Answer& answer, const TokenUsage& usage) {
  recipe::AnswerEnd end;
  end.usage = usage;
  end.stop_string = answer.stop;
  switch (answer.ending) {
    case recipe::Ending::kLength: end.reason = "length"; break;
    case recipe::Ending::kCalls: end.reason = "tool_calls"; break;
    case recipe::Ending::kStop:
    case recipe::Ending::kStopString: end.reason = "stop"; break;
  }
  return end;
}

// A dialect that knows one choice, and whose stream says everything that the whole reply does.
class OneAnswerWriter : public recipe::ReplyWriter {
 public:
  std::string whole(std::span<const Answer> answers, const TokenUsage& usage) override {
    if (!ended_) replay(answers.front(), usage);
    Json reply = whole_json();
    complete(reply);
    return write_json(reply);
  }
  void begin(ReplyEvents& out, const TokenUsage& usage) override {
    start(usage);
    send(out);
  }
  void event(ReplyEvents& out, const Answer& answer, const AnswerEvent& event,
             std::span<const AnswerToken> tokens) override {
    take(answer, event, tokens);
    send(out);
  }
  void finish(ReplyEvents&, const Answer& answer) override {
    ending_ = end_of(answer, {});
  }
  void end(ReplyEvents& out, const TokenUsage& usage) override {
    ending_.usage = usage;
    stop(ending_);
    ended_ = true;
    send(out);
  }

 protected:
  virtual Json whole_json() const = 0;
  // Adds to a whole reply what the reference's form of it lacks.
  virtual void complete(Json&) const {}
  virtual void start(const TokenUsage& usage) = 0;
  virtual void next(const AnswerEvent& event, std::span<const AnswerToken> tokens) = 0;
  virtual void stop(const recipe::AnswerEnd& end) = 0;

  recipe::CallIdMaker ids() {
    return [this](int32_t index) { return ids_[static_cast<size_t>(index)]; };
  }
  void send(ReplyEvents& out) {
    for (StreamPart& part : parts_) {
      if (part.data.contains("response")) complete(part.data["response"]);
      out.push_back({std::move(part.event), write_json(part.data)});
    }
    parts_.clear();
  }

  std::vector<StreamPart> parts_;

 private:
  void take(const Answer& answer, const AnswerEvent& event, std::span<const AnswerToken> tokens) {
    if (event.kind == AnswerEvent::Kind::kCall) ids_.push_back(answer.call_ids[ids_.size()]);
    next(event, tokens);
  }
  void replay(const Answer& answer, const TokenUsage& usage) {
    start(usage);
    std::span<const AnswerToken> tokens = answer.tokens;
    for (const AnswerEvent& event : answer.events) {
      const bool content = event.kind == AnswerEvent::Kind::kContent;
      take(answer, event, content ? std::exchange(tokens, {}) : tokens.first(0));
    }
    stop(end_of(answer, usage));
    parts_.clear();
  }

  std::vector<std::string> ids_;
  recipe::AnswerEnd ending_;
  bool ended_ = false;
};

class MessagesWriter final : public OneAnswerWriter {
 public:
  MessagesWriter(recipe::MessagesInfo info, std::string request_id)
      : answer_(std::move(info), ids()), request_id_(std::move(request_id)) {}

  void fail(ReplyEvents& out, const recipe::ReplyError& error) override {
    Json data = {{"type", "error"}};
    data["error"] = {{"type", std::string(error.type)}, {"message", std::string(error.message)}};
    data["request_id"] = request_id_;
    out.push_back({"error", write_json(data)});
  }

 private:
  Json whole_json() const override { return answer_.whole(); }
  void start(const TokenUsage& usage) override { answer_.begin(usage, parts_); }
  void next(const AnswerEvent& event, std::span<const AnswerToken>) override {
    answer_.next(event, parts_);
  }
  void stop(const recipe::AnswerEnd& end) override { answer_.finish(end, parts_); }

  recipe::MessagesAnswer answer_;
  const std::string request_id_;
};

class ResponsesWriter final : public OneAnswerWriter {
 public:
  ResponsesWriter(recipe::ResponsesInfo info, std::shared_ptr<const Vocab> vocab)
      : answer_(std::move(info), ids()), vocab_(std::move(vocab)) {}

  void fail(ReplyEvents& out, const recipe::ReplyError& error) override {
    // The two that OpenAI's types know of what can happen here.
    const bool limited = error.type == "rate_limit_error";
    answer_.fail(limited ? "rate_limit_exceeded" : "server_error", error.message, parts_);
    send(out);
  }

 private:
  Json whole_json() const override { return answer_.whole(); }
  // OpenAI's newer types want it. Nothing is ever paid for writing.
  void complete(Json& response) const override {
    if (!response["usage"].is_object()) return;
    response["usage"]["input_tokens_details"]["cache_write_tokens"] = 0;
  }
  void start(const TokenUsage&) override { answer_.begin(parts_); }
  void next(const AnswerEvent& event, std::span<const AnswerToken> tokens) override {
    Json logprobs = Json::array();
    for (const AnswerToken& token : tokens) {
      logprobs.push_back(recipe::logprob_json(token, *vocab_));
    }
    answer_.next(event, parts_, std::move(logprobs));
  }
  void stop(const recipe::AnswerEnd& end) override {
    answer_.finish(end, unix_seconds(), parts_);
  }

  recipe::ResponsesAnswer answer_;
  const std::shared_ptr<const Vocab> vocab_;
};

recipe::ReplyHead head_of(const Order& order, const ReplyInfo& info, std::string id) {
  const recipe::GenerationOrder& generation = order.generation;
  recipe::ReplyHead head;
  head.id = std::move(id);
  head.created = info.created;
  head.model = generation.model;
  head.system_fingerprint = info.system_fingerprint;
  head.choices = generation.sampling.n * static_cast<int32_t>(order.parts.size());
  head.thinking = order.conversation && order.conversation->thinking;
  head.begins_with_reasoning = info.begins_with_reasoning;
  head.logprobs = generation.sampling.top_logprobs >= 0;
  head.top_logprobs = generation.sampling.top_logprobs;
  head.include_usage = generation.include_usage;
  head.warnings = generation.warnings.list();
  return head;
}

}  // namespace

std::string_view id_prefix(Dialect dialect) {
  switch (dialect) {
    case Dialect::kChat: return "chatcmpl-";
    case Dialect::kCompletions: return "cmpl-";
    case Dialect::kResponses: return "resp_";
    case Dialect::kMessages: return "msg_";
  }
  return "";
}

std::unique_ptr<recipe::ReplyWriter> make_reply_writer(const Order& order, const ReplyInfo& info,
                                                       std::shared_ptr<const Vocab> vocab) {
  std::string id = std::string(id_prefix(order.dialect)) + info.id;
  const recipe::GenerationOrder& generation = order.generation;
  switch (order.dialect) {
    case Dialect::kChat:
      return recipe::make_chat_writer(head_of(order, info, std::move(id)), std::move(vocab));
    case Dialect::kCompletions: break;
    case Dialect::kMessages:
      return std::make_unique<MessagesWriter>(
          recipe::MessagesInfo{std::move(id), generation.model, info.begins_with_reasoning,
                               generation.warnings.list()},
          info.request_id);
    case Dialect::kResponses:
      return std::make_unique<ResponsesWriter>(
          recipe::ResponsesInfo{std::move(id), generation.model, info.created, order.body,
                                order.store, generation.warnings.list()},
          std::move(vocab));
  }
  return recipe::make_completions_writer(head_of(order, info, std::move(id)), std::move(vocab));
}

}  // namespace lineshaft::api
