// lineshaft run: a chat in the terminal, or one answer when words or piped text are given.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <random>

#include "base/clock.h"
#include "lineshaft/commands.h"
#include "lineshaft/dialogue.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/generation.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/line_editor.h"
#include "lineshaft/paths.h"
#include "lineshaft/print.h"
#include "lineshaft/serving.h"
#include "lineshaft/terminal.h"
#include "lineshaft/word_wrap.h"

namespace lineshaft::app {
namespace {

// Everything an answer needs.
struct Chat {
  RequestSink& sink;
  const OpenModel& model;
  const recipe::ChatEncoder& encoder;
  int32_t context_tokens;
};

struct Timing {
  double first_token_seconds = 0.0;
  double total_seconds = 0.0;
};

StatusOr<Answer> answer(const Chat& chat, const Dialogue& dialogue, bool stream, Timing* timing) {
  LS_ASSIGN_OR_RETURN(std::vector<TokenId> prompt, chat.encoder.encode(dialogue.conversation()));
  SamplingConfig sampling = dialogue.sampling();
  const auto room = chat.context_tokens - static_cast<int64_t>(prompt.size());
  if (room < 1) {
    return out_of_range("the conversation has {} tokens and fills the context of {}; /reset "
                        "begins anew, --max-context sets it",
                        prompt.size(), chat.context_tokens);
  }
  sampling.max_tokens = static_cast<int>(std::min<int64_t>(sampling.max_tokens, room));
  Generation generation(chat.sink, chat.model.tokenizer, sampling,
                        recipe::Detokenizer::ControlTokens::kHide);
  SystemClock clock;
  const Instant begin = clock.now();
  const auto show = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  WordWrap wrap(stdout_is_tty() ? static_cast<size_t>(terminal_width()) : 0);
  Answer out;
  generation.run(
      {std::move(prompt)}, 1,
      [&](size_t, std::string_view text) {
        if (timing->first_token_seconds == 0.0) {
          timing->first_token_seconds = (clock.now() - begin).in_seconds();
        }
        if (stream) show(wrap.add(text));
      },
      [&](size_t, const Answer& whole) { out = whole; });
  show(wrap.finish());
  timing->total_seconds = (clock.now() - begin).in_seconds();
  LS_RETURN_IF_ERROR(out.error);
  return out;
}

void print_stats(const Answer& a, const Timing& timing, bool colour) {
  const double decode = timing.total_seconds - timing.first_token_seconds;
  const double speed = decode > 0 ? (a.usage.generated_tokens - 1) / decode : 0.0;
  print(stderr, "{}[{} tokens, {:.1f} tokens/s, first after {:.0f} ms, prompt {} ({} cached)]"
                "{}\n",
        colour ? "\033[2m" : "", a.usage.generated_tokens, std::max(speed, 0.0),
        timing.first_token_seconds * 1e3, a.usage.prompt_tokens, a.usage.cached_tokens,
        colour ? "\033[0m" : "");
}

void answer_aloud(const Chat& chat, Dialogue* dialogue) {
  clear_interrupts();
  Timing timing;
  const StatusOr<Answer> result = answer(chat, *dialogue, true, &timing);
  if (!result.ok()) {
    dialogue->add_answer("");
    fail(kFailed, result.status());
    return;
  }
  print(stdout, "{}\n", result->finish_reason == "cancelled" ? " (stopped)" : "");
  std::fflush(stdout);
  dialogue->add_answer(result->text);
  if (dialogue->show_stats()) print_stats(*result, timing, use_colour(stderr_is_tty()));
  clear_interrupts();
}

// A line, or several between three quotes. nullopt: the user left.
std::optional<std::string> read_entry(LineEditor& editor) {
  std::optional<std::string> text = editor.read(">>> ");
  while (text && wants_more_lines(*text)) {
    const std::optional<std::string> more = editor.read("... ");
    if (!more) return std::nullopt;
    *text += "\n" + *more;
  }
  return text;
}

int converse(const Chat& chat, Dialogue* dialogue) {
  LineEditor editor((state_dir() / "history").string());
  print(stderr, "{} is ready; /help lists commands, Ctrl-D leaves\n", chat.model.name);
  while (true) {
    const std::optional<std::string> entry = read_entry(editor);
    if (!entry) break;
    editor.remember(*entry);
    const Dialogue::Outcome outcome = dialogue->enter(*entry);
    if (outcome.action == Dialogue::Action::kExit) return kOk;
    if (!outcome.text.empty()) print(stderr, "{}\n", outcome.text);
    if (outcome.action == Dialogue::Action::kAnswer) answer_aloud(chat, dialogue);
  }
  std::fputc('\n', stdout);
  return kOk;
}

int answer_once(const Config& config, const Chat& chat, Dialogue* dialogue,
                const std::string& text) {
  dialogue->enter("\"\"\"" + text + "\"\"\"");   // never a command
  Timing timing;
  const StatusOr<Answer> result = answer(chat, *dialogue, !config.common.json, &timing);
  if (!result.ok()) return fail(kFailed, result.status());
  if (config.common.json) {
    print_json(Json{{"text", result->text},
                    {"finish_reason", result->finish_reason},
                    {"usage",
                     {{"prompt_tokens", result->usage.prompt_tokens},
                      {"completion_tokens", result->usage.generated_tokens}}}});
  } else {
    print(stdout, "\n");
  }
  return interrupts() > 0 ? kInterrupted : kOk;
}

// Words of the command line and what is piped in; "": a dialogue is wanted.
std::string given_text(const Config& config) {
  std::string text;
  for (const std::string& word : config.run.prompt) text += (text.empty() ? "" : " ") + word;
  if (stdin_is_tty()) return text;
  const std::string piped{std::istreambuf_iterator<char>(std::cin), {}};
  if (!text.empty() && !piped.empty()) text += "\n\n";
  return text + piped;
}

uint64_t fresh_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

int chat(const Config& config, const LoadedModel& model, RequestSink& sink,
         const recipe::ChatEncoder& encoder, const std::string& text) {
  SamplingConfig sampling = config.sampling;
  if (sampling.seed == 0) sampling.seed = fresh_seed();
  Dialogue dialogue(config.run.system, sampling);
  dialogue.set_show_stats(config.run.stats);
  const Chat chat{sink, model.open, encoder, model.plan.context_tokens};
  return text.empty() ? converse(chat, &dialogue) : answer_once(config, chat, &dialogue, text);
}

// The server beside the chat takes another port when its own is taken.
StatusOr<std::unique_ptr<Serving>> start_server(const Config& config, const LoadedModel& model) {
  auto serving = Serving::start(config, model);
  if (serving.ok() || serving.status().code() != StatusCode::kUnavailable) return serving;
  Config other = config;
  other.serve.port = 0;
  return Serving::start(other, model);
}

}  // namespace

int run_run(const Config& config) {
  catch_interrupts();
  const std::string text = given_text(config);
  if (text.empty() && !stdin_is_tty()) {
    return fail(kWrongUse, invalid_argument("standard input is empty and no prompt was given"));
  }
  const auto model = load_model(config);
  if (!model.ok()) return fail_load(model.status());
  const auto encoder = chat_encoder(model->open);
  if (!encoder.ok()) return fail(kFailed, encoder.status());
  if (config.run.with_server) {
    const auto serving = start_server(config, *model);
    if (!serving.ok()) return fail_load(serving.status());
    print(stderr, "server: {}\n{}\n", (*serving)->url(), (*serving)->curl_line());
    return chat(config, *model, (*serving)->engine(), **encoder, text);
  }
  const auto engine = LocalEngine::start(*model, config);
  if (!engine.ok()) return fail_load(engine.status());
  return chat(config, *model, **engine, **encoder, text);
}

}  // namespace lineshaft::app
