#include "lineshaft/decode_replies.h"

#include <optional>
#include <utility>
#include <vector>

#include "recipe/dialect/chat_answer.h"
#include "recipe/dialect/messages_answer.h"
#include "recipe/dialect/responses_answer.h"

namespace lineshaft::app {
namespace {

using recipe::AnswerEnd;
using recipe::AnswerEvent;
using recipe::CallIdMaker;
using recipe::StreamPart;
using recipe::TokenUsage;

constexpr char kModel[] = "m";

Json reply_json(std::vector<StreamPart> parts, Json whole) {
  Json reply = Json::object();
  reply["events"] = Json::array();
  for (StreamPart& part : parts) {
    Json entry = Json::object();
    entry["event"] = part.event.empty() ? Json() : Json(part.event);
    entry["data"] = std::move(part.data);
    reply["events"].push_back(std::move(entry));
  }
  reply["final"] = std::move(whole);
  return reply;
}

class ChatReply final : public DecodedReply {
 public:
  explicit ChatReply(CallIdMaker new_call_id) : new_call_id_(std::move(new_call_id)) {}

  void begin(const ReplyStart& start, const TokenUsage&) override {
    recipe::ChatAnswerInfo info;
    info.id = "chatcmpl-1";
    info.model = kModel;
    info.fingerprint = start.fingerprint;
    info.thinking = start.thinking;
    info.begins_with_reasoning = start.begins_with_reasoning;
    info.include_usage = start.include_usage;
    answer_.emplace(std::move(info), std::move(new_call_id_));
    parts_.push_back({"", answer_->first()});
  }
  void next(const AnswerEvent& event, const Json& logprobs) override {
    parts_.push_back({"", answer_->next(event, logprobs)});
  }
  void finish(const AnswerEnd& end) override {
    parts_.push_back({"", answer_->last(end.reason, end.usage)});
    whole_ = answer_->whole(end.reason, end.usage);
  }
  Json take() override { return reply_json(std::move(parts_), std::move(whole_)); }

 private:
  CallIdMaker new_call_id_;
  std::optional<recipe::ChatAnswer> answer_;
  std::vector<StreamPart> parts_;
  Json whole_;
};

class MessagesReply final : public DecodedReply {
 public:
  explicit MessagesReply(CallIdMaker new_call_id) : new_call_id_(std::move(new_call_id)) {}

  void begin(const ReplyStart& start, const TokenUsage& usage) override {
    recipe::MessagesInfo info;
    info.id = "msg_1";
    info.model = kModel;
    info.begins_with_reasoning = start.begins_with_reasoning;
    answer_.emplace(std::move(info), std::move(new_call_id_));
    answer_->begin(usage, parts_);
  }
  void next(const AnswerEvent& event, const Json&) override { answer_->next(event, parts_); }
  void finish(const AnswerEnd& end) override { answer_->finish(end, parts_); }
  Json take() override { return reply_json(std::move(parts_), answer_->whole()); }

 private:
  CallIdMaker new_call_id_;
  std::optional<recipe::MessagesAnswer> answer_;
  std::vector<StreamPart> parts_;
};

class ResponsesReply final : public DecodedReply {
 public:
  ResponsesReply(const Json& request, CallIdMaker new_call_id)
      : answer_({.id = "resp_1", .model = kModel, .request = request}, std::move(new_call_id)) {}

  void begin(const ReplyStart&, const TokenUsage&) override { answer_.begin(parts_); }
  void next(const AnswerEvent& event, const Json& logprobs) override {
    answer_.next(event, parts_, logprobs);
  }
  void finish(const AnswerEnd& end) override { answer_.finish(end, 0, parts_); }
  Json take() override { return reply_json(std::move(parts_), answer_.whole()); }

 private:
  recipe::ResponsesAnswer answer_;
  std::vector<StreamPart> parts_;
};

}  // namespace

std::unique_ptr<DecodedReply> make_decoded_reply(std::string_view dialect, const Json& request,
                                                 CallIdMaker new_call_id) {
  if (dialect == "messages") return std::make_unique<MessagesReply>(std::move(new_call_id));
  if (dialect == "responses") {
    return std::make_unique<ResponsesReply>(request, std::move(new_call_id));
  }
  return std::make_unique<ChatReply>(std::move(new_call_id));
}

}  // namespace lineshaft::app
