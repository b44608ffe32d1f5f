// Generation: answers from a RequestSink, collected on the caller's thread, as text and ids.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/queue.h"
#include "base/status.h"
#include "core/doors/request_sink.h"
#include "lineshaft/config.h"
#include "recipe/detokenizer.h"
#include "recipe/stop_matcher.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::app {

struct Answer {
  std::vector<TokenId> ids;          // without the stop token
  std::vector<float> logprobs;       // of ids
  std::string text;
  std::string finish_reason;         // "stop", "length" or "cancelled"
  Usage usage;
  Status error;                      // not ok: the rest is what came before
};

// The request for `prompt`: everything but the id.
Request make_request(std::vector<TokenId> prompt, const SamplingConfig& sampling);

// Runs prompts with at most `parallel` in flight. `on_text` hears new text of prompt `index` as it
// comes, `on_done` hears answers in the order of the prompts. interrupts() ends all: answers are
// then "cancelled". One use at a time.
class Generation {
 public:
  using OnText = std::function<void(size_t index, std::string_view text)>;
  using OnDone = std::function<void(size_t index, const Answer& answer)>;

  using ControlTokens = recipe::Detokenizer::ControlTokens;

  Generation(RequestSink& sink, std::shared_ptr<const recipe::Tokenizer> tokenizer,
             const SamplingConfig& sampling, ControlTokens control = ControlTokens::kShow)
      : sink_(sink), tokenizer_(std::move(tokenizer)), sampling_(sampling), control_(control) {}

  void run(std::vector<std::vector<TokenId>> prompts, size_t parallel, const OnText& on_text,
           const OnDone& on_done);

 private:
  struct Running;
  class Listener;
  struct Mail {
    size_t index = 0;
    TokenEvent event;
  };

  void begin(Running& running, size_t index);
  void take(Running& running, TokenEvent& event);
  void take_token(Running& running, const TokenEvent& event);
  void show(Running& running, std::string_view text);

  RequestSink& sink_;
  std::shared_ptr<const recipe::Tokenizer> tokenizer_;
  SamplingConfig sampling_;
  ControlTokens control_;
  const OnText* on_text_ = nullptr;
  std::shared_ptr<BoundedQueue<Mail>> mail_;   // listeners may outlive run()
};

}  // namespace lineshaft::app
