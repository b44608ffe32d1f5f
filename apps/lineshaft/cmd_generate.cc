// lineshaft generate: answers to a prompt or to a file of prompts, and nothing around it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/generation.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/local_engine.h"
#include "lineshaft/print.h"
#include "lineshaft/wiring.h"

namespace lineshaft::app {
namespace {

using Prompts = std::vector<std::vector<TokenId>>;

StatusOr<Prompts> read_prompts(const Config& config, const OpenModel& model) {
  const GenerateConfig& g = config.generate;
  if (!g.tokens_file.empty() && !g.prompt.empty()) {
    return invalid_argument("--prompt and --tokens exclude each other");
  }
  if (!g.tokens_file.empty()) return read_token_file(g.tokens_file, model.spec.vocab);
  const auto vocab = model.tokenizer->vocab();
  std::vector<TokenId> ids;
  if (vocab->add_bos && vocab->bos >= 0) ids.push_back(vocab->bos);
  // Whoever types a raw prompt may spell control tokens on purpose.
  const auto text = model.tokenizer->encode(g.prompt, recipe::Tokenizer::Mode::kSpecial);
  ids.insert(ids.end(), text.begin(), text.end());
  if (ids.empty()) return invalid_argument("generate needs --prompt TEXT or --tokens FILE");
  return Prompts{ids};
}

Json answer_json(const Answer& answer) {
  Json logprobs = Json::array();
  for (const float value : answer.logprobs) logprobs.push_back(json_float(value));
  return Json{{"ids", answer.ids},
              {"text", answer.text},
              {"logprobs", logprobs},
              {"finish_reason", answer.finish_reason},
              {"usage",
               {{"prompt_tokens", answer.usage.prompt_tokens},
                {"cached_tokens", answer.usage.cached_tokens},
                {"completion_tokens", answer.usage.generated_tokens},
                {"total_tokens", answer.usage.prompt_tokens + answer.usage.generated_tokens}}}};
}

// A request's own fault, or ours.
ExitCode code_of(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ||
                 status.code() == StatusCode::kOutOfRange
             ? kWrongUse
             : kFailed;
}

int generate(const Config& config, LocalEngine& engine, const OpenModel& model, Prompts prompts) {
  const size_t count = prompts.size();
  size_t done = 0;
  int code = kOk;
  const bool stream = !config.common.json && count == 1;
  const auto on_text = [&](size_t, std::string_view text) {
    if (!stream) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const auto on_done = [&](size_t index, const Answer& answer) {
    ++done;
    if (!answer.error.ok()) {
      code = fail(code_of(answer.error),
                  make_status(answer.error.code(), fmt::format("prompt {}: {}", index + 1,
                                                               message_of(answer.error))));
      if (config.common.json) {
        print_json(Json{{"error", std::string(message_of(answer.error))}});
      }
      return;
    }
    if (config.common.json) {
      print_json(answer_json(answer));
    } else {
      print(stdout, "{}\n", stream ? "" : answer.text);
    }
  };
  Generation generation(engine, model.tokenizer, config.sampling);
  generation.run(std::move(prompts), static_cast<size_t>(config.generate.parallel), on_text,
                 on_done);
  return interrupts() > 0 ? kInterrupted : code;
}

}  // namespace

int run_generate(const Config& config) {
  catch_interrupts();
  Config own = config;
  own.scheduling.max_seqs = std::max(1, config.generate.parallel);
  own.scheduling.queue_max = std::max(own.scheduling.queue_max, config.generate.parallel);
  own.scheduling.step_tokens_max =
      std::max(own.scheduling.step_tokens_max, own.scheduling.max_seqs);
  auto open = open_model(own);   // before the weights: a wrong prompt fails at once
  if (!open.ok()) return fail_load(open.status());
  auto prompts = read_prompts(own, *open);
  if (!prompts.ok()) return fail(kWrongUse, prompts.status());
  const auto model = load_model(own, std::move(*open));
  if (!model.ok()) return fail_load(model.status());
  const auto engine = LocalEngine::start(*model, own);
  if (!engine.ok()) return fail_load(engine.status());
  return generate(own, **engine, model->open, std::move(*prompts));
}

}  // namespace lineshaft::app
