#include "lineshaft/scripted_worker.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "recipe/dialect/fields.h"

namespace lineshaft::app {
namespace {

using recipe::Fields;
using recipe::Tokenizer;

constexpr int64_t kDelayMaxMs = 600'000;

Status append_piece(const Json& piece, const std::string& path, const Tokenizer& tokenizer,
                    std::vector<TokenId>& out) {
  const auto add = [&](const std::string& text, Tokenizer::Mode mode) {
    const auto ids = tokenizer.encode(text, mode);
    out.insert(out.end(), ids.begin(), ids.end());
    return ok_status();
  };
  if (piece.is_string()) return add(piece.get<std::string>(), Tokenizer::Mode::kSpecial);
  if (piece.is_object() && piece.contains("plain") && piece["plain"].is_string()) {
    return add(piece["plain"].get<std::string>(), Tokenizer::Mode::kPlain);
  }
  LS_ASSIGN_OR_RETURN(const int64_t id,
                      recipe::integer_value(piece, path, 0, tokenizer.vocab()->size() - 1));
  out.push_back(static_cast<TokenId>(id));
  return ok_status();
}

Status read_choices(const Json* choices, const std::string& path, const Tokenizer& tokenizer,
                    ScriptedAnswer& answer) {
  if (choices == nullptr || !choices->is_array() || choices->empty()) {
    return recipe::field_error(path, "must be an array of choices");
  }
  for (size_t i = 0; i < choices->size(); ++i) {
    const Json& pieces = (*choices)[i];
    const std::string inner = fmt::format("{}[{}]", path, i);
    if (!pieces.is_array()) return recipe::field_error(inner, "must be an array of pieces");
    auto& tokens = answer.choices.emplace_back();
    for (size_t k = 0; k < pieces.size(); ++k) {
      LS_RETURN_IF_ERROR(
          append_piece(pieces[k], fmt::format("{}[{}]", inner, k), tokenizer, tokens));
    }
  }
  return ok_status();
}

Status read_answer(const Json& value, size_t index, const Tokenizer& tokenizer, Script& script) {
  const std::string path = fmt::format("answers[{}]", index);
  if (!value.is_object()) return recipe::field_error(path, "must be an object");
  recipe::Warnings warnings;
  Fields fields(value, path, warnings);
  ScriptedAnswer answer;
  LS_RETURN_IF_ERROR(fields.read_string("when", answer.when));
  LS_RETURN_IF_ERROR(
      read_choices(fields.take("choices"), fields.path_of("choices"), tokenizer, answer));
  LS_RETURN_IF_ERROR(fields.read_bool("ends", answer.ends));
  int64_t fail_after = -1;
  LS_RETURN_IF_ERROR(fields.read_integer("fail_after", 0, INT32_MAX, fail_after));
  answer.fail_after = static_cast<int32_t>(fail_after);
  LS_RETURN_IF_ERROR(
      fields.read_integer("first_delay_ms", 0, kDelayMaxMs, answer.first_delay_ms));
  LS_RETURN_IF_ERROR(
      fields.read_integer("token_delay_ms", 0, kDelayMaxMs, answer.token_delay_ms));
  LS_RETURN_IF_ERROR(fields.finish(true));
  script.answers.push_back(std::move(answer));
  return ok_status();
}

}  // namespace

const ScriptedAnswer& Script::answer_to(const std::string& prompt) const {
  const ScriptedAnswer* best = nullptr;
  size_t best_end = 0;
  for (const ScriptedAnswer& answer : answers) {
    const size_t at = prompt.rfind(answer.when);
    const size_t end = answer.when.empty() || at == std::string::npos ? 0 : at + answer.when.size();
    if (end > best_end || (best == nullptr && answer.when.empty())) {
      best = &answer;
      best_end = end;
    }
  }
  return best == nullptr ? answers.front() : *best;
}

StatusOr<Script> read_script(const std::string& path, const Tokenizer& tokenizer) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return not_found("cannot read --test-script {}", path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  LS_ASSIGN_OR_RETURN(const Json json, parse_json(text));
  const bool listed = json.is_object() && json.contains("answers") &&
                      json["answers"].is_array() && !json["answers"].empty();
  if (!listed) return invalid_argument("'answers' of {} must be an array of answers", path);
  Script script;
  for (size_t i = 0; i < json["answers"].size(); ++i) {
    LS_RETURN_IF_ERROR(read_answer(json["answers"][i], i, tokenizer, script));
  }
  return script;
}

ScriptedWorker::ScriptedWorker(Script script, std::shared_ptr<const Tokenizer> tokenizer,
                               int32_t context_tokens, OnResult on_result)
    : script_(std::move(script)),
      tokenizer_(std::move(tokenizer)),
      context_tokens_(context_tokens),
      on_result_(std::move(on_result)),
      thread_([this] { loop(); }) {}

ScriptedWorker::~ScriptedWorker() {
  plans_.close();
  thread_.join();
}

void ScriptedWorker::start(StepPlan plan) {
  LS_CHECK(plans_.try_push(std::move(plan)), "more than {} plans without an answer", kPlansMax);
}

void ScriptedWorker::loop() {
  while (std::optional<StepPlan> plan = plans_.pop()) {
    delay_ms_ = 0;
    for (const SeqStart& start : plan->starts) begin(start);
    for (const SeqId seq : plan->ends) sequences_.erase(seq.value);
    StepResult result;
    result.step = plan->step;
    for (const SeqWork& one : plan->work) result.results.push_back(work(one));
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms_));
    result.compute = Duration::milliseconds(delay_ms_);
    on_result_(std::move(result));
  }
}

void ScriptedWorker::begin(const SeqStart& start) {
  const std::string prompt = tokenizer_->decode(start.request->prompt);
  sequences_.emplace(start.seq.value,
                     Sequence{worker::SeqRuntime(start, context_tokens_),
                              &script_.answer_to(prompt), start.choice});
}

SeqResult ScriptedWorker::work(const SeqWork& work) {
  SeqResult result;
  result.seq = work.seq;
  const auto found = sequences_.find(work.seq.value);
  LS_CHECK(found != sequences_.end(), "sequence {} was never started", work.seq.value);
  Sequence& sequence = found->second;
  result.skipped = sequence.contents.ended();
  if (!result.skipped && work.sample) {
    const ScriptedAnswer& answer = *sequence.answer;
    delay_ms_ = std::max(delay_ms_, sequence.said == 0 ? answer.first_delay_ms
                                                       : answer.token_delay_ms);
    say(sequence, result);
  }
  return result;
}

void ScriptedWorker::say(Sequence& sequence, SeqResult& result) const {
  const ScriptedAnswer& answer = *sequence.answer;
  const Vocab& vocab = *tokenizer_->vocab();
  const auto& tokens =
      answer.choices[static_cast<size_t>(sequence.choice) % answer.choices.size()];
  const auto at = static_cast<size_t>(sequence.said);
  const bool over = tokens.empty() || (answer.ends && at >= tokens.size());
  if (over || sequence.said == answer.fail_after) {
    sequence.contents.end();
    result.ended = true;
    result.finish = over ? FinishReason::kStop : FinishReason::kError;
    result.sampled = over;
    result.token = std::max(vocab.eos, 0);
    return;
  }
  ++sequence.said;
  result.sampled = true;
  result.token = tokens[at % tokens.size()];
  const int32_t top = sequence.contents.params().top_logprobs;
  result.logprob = -0.5f;
  for (int32_t i = 0; i < top; ++i) {
    result.top.push_back({(result.token + i) % vocab.size(), -0.5f - static_cast<float>(i)});
  }
  if (const auto finish = sequence.contents.accept(result.token, vocab)) {
    result.ended = true;
    result.finish = *finish;
  }
}

}  // namespace lineshaft::app
