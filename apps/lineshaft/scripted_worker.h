// ScriptedWorker: a Worker whose sequences say what a file tells them to, instead of what a model
// would. For tests of parsers, dialects and clients through the real engine; computes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/queue.h"
#include "base/status.h"
#include "core/doors/worker.h"
#include "core/vocab.h"
#include "recipe/tokenizer/tokenizer.h"
#include "worker/seq_runtime.h"

namespace lineshaft::app {

// What to answer to prompts that hold `when`.
struct ScriptedAnswer {
  std::string when;                         // "": any prompt
  std::vector<std::vector<TokenId>> choices;  // choice i says choices[i modulo their number]
  bool ends = true;                         // else the tokens go round until the limit
  int32_t fail_after = -1;                  // the worker fails after so many tokens; -1: never
  int64_t first_delay_ms = 0;
  int64_t token_delay_ms = 0;
};

struct Script {
  std::vector<ScriptedAnswer> answers;  // at least one

  // The answer whose `when` ends last in the prompt, so that a dialogue can go on; of those without
  // a `when`, the first, if nothing else fits.
  const ScriptedAnswer& answer_to(const std::string& prompt) const;
};

// {"answers": [{"when", "choices": [[piece, …], …], "ends", "fail_after", "first_delay_ms",
// "token_delay_ms"}, …]}. A piece is a string, whose control tokens count, {"plain": "…"}, where
// they don't, or a token id. kNotFound: no such file; kInvalidArgument naming the field.
StatusOr<Script> read_script(const std::string& path, const recipe::Tokenizer& tokenizer);

class ScriptedWorker final : public Worker {
 public:
  using OnResult = std::function<void(StepResult&& result)>;

  ScriptedWorker(Script script, std::shared_ptr<const recipe::Tokenizer> tokenizer,
                 int32_t context_tokens, OnResult on_result);
  ~ScriptedWorker() override;

  void start(StepPlan plan) override;

 private:
  struct Sequence {
    worker::SeqRuntime contents;
    const ScriptedAnswer* answer;
    int32_t choice;
    int32_t said = 0;
  };

  void loop();
  void begin(const SeqStart& start);
  SeqResult work(const SeqWork& work);
  void say(Sequence& sequence, SeqResult& result) const;

  const Script script_;
  const std::shared_ptr<const recipe::Tokenizer> tokenizer_;
  const int32_t context_tokens_;
  const OnResult on_result_;
  std::unordered_map<uint64_t, Sequence> sequences_;  // by SeqId::value
  int64_t delay_ms_ = 0;                              // of the step that runs
  BoundedQueue<StepPlan> plans_{kPlansMax};
  std::thread thread_;
};

}  // namespace lineshaft::app
