#include "lineshaft/generation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "lineshaft/interrupt.h"

namespace lineshaft::app {

struct Generation::Running {
  size_t index = 0;
  std::shared_ptr<const Request> request;
  std::unique_ptr<recipe::Detokenizer> detokenizer;
  std::unique_ptr<recipe::StopMatcher> stops;
  bool stopped = false;   // a stop string matched
  bool done = false;
  Answer answer;
};

// Hands events to the thread that runs the generation.
class Generation::Listener final : public TokenListener {
 public:
  Listener(std::shared_ptr<BoundedQueue<Mail>> mail, size_t index)
      : mail_(std::move(mail)), index_(index) {}
  void deliver(TokenEvent&& event) override {
    LS_CHECK(mail_->try_push({index_, std::move(event)}), "the queue is sized for all events");
  }

 private:
  std::shared_ptr<BoundedQueue<Mail>> mail_;
  const size_t index_;
};

Request make_request(std::vector<TokenId> prompt, const SamplingConfig& s) {
  Request request;
  request.original_prompt_tokens = static_cast<int32_t>(prompt.size());
  request.prompt = std::move(prompt);
  SamplingParams& p = request.sampling;
  p.temperature = static_cast<float>(s.temperature);
  p.top_k = s.top_k;
  p.top_p = static_cast<float>(s.top_p);
  p.min_p = static_cast<float>(s.min_p);
  p.repetition_penalty = static_cast<float>(s.repetition_penalty);
  p.presence_penalty = static_cast<float>(s.presence_penalty);
  p.frequency_penalty = static_cast<float>(s.frequency_penalty);
  p.seed = s.seed;
  p.max_tokens = s.max_tokens;
  p.top_logprobs = s.top_logprobs;
  p.ignore_eos = s.ignore_eos;
  return request;
}

void Generation::run(std::vector<std::vector<TokenId>> prompts, size_t parallel,
                     const OnText& on_text, const OnDone& on_done) {
  on_text_ = &on_text;
  const size_t per_request = static_cast<size_t>(sampling_.max_tokens) + 2;
  mail_ = std::make_shared<BoundedQueue<Mail>>(per_request * prompts.size());
  std::vector<Running> all(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    all[i].request = std::make_shared<Request>(make_request(std::move(prompts[i]), sampling_));
  }
  size_t begun = 0, finished = 0, reported = 0;
  bool cancelled = false;
  while (reported < all.size()) {
    while (begun < all.size() && begun - finished < parallel) begin(all[begun], begun), ++begun;
    if (std::optional<Mail> mail = mail_->pop_for(Duration::milliseconds(50))) {
      Running& running = all[mail->index];
      take(running, mail->event);
      if (running.done) ++finished;
    }
    if (interrupts() > 0 && !cancelled) {
      cancelled = true;
      for (size_t i = 0; i < begun; ++i) sink_.cancel(all[i].request->id);
    }
    while (reported < begun && all[reported].done) {
      on_done(reported, all[reported].answer);
      ++reported;
    }
    if (cancelled && finished == begun) return;
  }
}

void Generation::begin(Running& running, size_t index) {
  running.index = index;
  running.detokenizer = std::make_unique<recipe::Detokenizer>(tokenizer_->vocab(), control_);
  running.stops = std::make_unique<recipe::StopMatcher>(sampling_.stop);
  auto request = std::make_shared<Request>(*running.request);
  request->id = sink_.next_id();
  running.request = request;
  const Status status = sink_.submit(request, std::make_shared<Listener>(mail_, index));
  if (status.ok()) return;
  TokenEvent refused;   // as if the sink had answered so
  refused.kind = TokenEvent::Kind::kFinish;
  refused.finish = FinishReason::kError;
  refused.error = status;
  Listener(mail_, index).deliver(std::move(refused));
}

void Generation::show(Running& running, std::string_view text) {
  if (text.empty()) return;
  running.answer.text.append(text);
  if (*on_text_) (*on_text_)(running.index, text);
}

void Generation::take_token(Running& running, const TokenEvent& event) {
  if (running.stopped) return;   // tokens that came while the cancel was on its way
  running.answer.ids.push_back(event.token);
  running.answer.logprobs.push_back(event.logprob);
  const auto result = running.stops->push(running.detokenizer->push(event.token));
  show(running, result.text);
  if (!result.matched) return;
  running.stopped = true;
  sink_.cancel_choice(running.request->id, 0);
}

void Generation::take(Running& running, TokenEvent& event) {
  if (event.kind == TokenEvent::Kind::kToken) take_token(running, event);
  if (event.kind != TokenEvent::Kind::kFinish) return;
  if (!running.stopped) {
    show(running, running.stops->push(running.detokenizer->finish()).text);
    show(running, running.stops->finish());
  }
  Answer& answer = running.answer;
  answer.usage = event.usage;
  answer.usage.generated_tokens = static_cast<int32_t>(answer.ids.size());
  answer.error = event.error;
  answer.finish_reason = event.finish == FinishReason::kLength      ? "length"
                         : event.finish == FinishReason::kCancelled ? "cancelled"
                                                                    : "stop";
  if (running.stopped) answer.finish_reason = "stop";
  running.done = true;
}

}  // namespace lineshaft::app
