// lineshaft bench: prefill and decode speed by batch size, through the whole engine.
//
// Prefill: `batch` prompts of --prompt-tokens random ids, one generated token each; tokens over
// the time from the first submit to the last token. Decode: `batch` sequences of --gen-tokens
// generated ones; tokens over time from when all have their first. Their prompts have
// --decode-prompt-tokens and are computed before the timed run, which then finds them in the prefix
// cache: all sequences begin together, none ends while another is still in its prompt. Every
// repetition has prompts of its own, so that nothing else is reused. Idle: the share of the decode
// time in which the worker ran no step, between the end of one and the start of the next.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/queue.h"
#include "base/rng.h"
#include "lineshaft/commands.h"
#include "lineshaft/engine_metrics.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/generation.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/local_engine.h"
#include "lineshaft/machine.h"
#include "lineshaft/print.h"
#include "lineshaft/version.h"
#include "lineshaft/wiring.h"

namespace lineshaft::app {
namespace {

// Times of all tokens of one load, as the engine's thread delivers them: after the metrics count
// the step that they come from.
class Stopwatch final : public TokenListener {
 public:
  // `steps`: compute times of decode steps; outlives this.
  Stopwatch(size_t requests, const Histogram& steps)
      : unfinished_(requests), steps_(steps), done_(1) {}

  void deliver(TokenEvent&& event) override {
    const Instant now = clock_.now();
    if (event.kind == TokenEvent::Kind::kToken) {
      if (event.position == 0) {
        all_begun_ = now;
        computed_before_ = steps_.sum();
      }
      times_.push_back(now);
      computed_after_ = steps_.sum();
    }
    if (event.kind != TokenEvent::Kind::kFinish) return;
    if (!event.error.ok()) error_ = event.error;
    if (--unfinished_ == 0) done_.try_push(true);
  }

  // False when interrupted.
  bool wait() {
    while (!done_.pop_for(Duration::milliseconds(50))) {
      if (interrupts() > 0) return false;
    }
    return true;
  }

  Status error() const { return error_; }
  Instant last() const { return times_.back(); }
  // Tokens a second from when every request had its first token.
  double decode_rate() const {
    const auto after = std::count_if(times_.begin(), times_.end(),
                                     [&](Instant t) { return t > all_begun_; });
    return static_cast<double>(after) / (last() - all_begun_).in_seconds();
  }
  // Share of that time in which the worker ran no step.
  double idle_share() const {
    const double wall = (last() - all_begun_).in_seconds();
    return std::max(0.0, 1.0 - (computed_after_ - computed_before_) / wall);
  }

 private:
  SystemClock clock_;
  size_t unfinished_;
  const Histogram& steps_;
  double computed_before_ = 0.0;   // seconds
  double computed_after_ = 0.0;
  Instant all_begun_{};
  std::vector<Instant> times_;
  Status error_;
  BoundedQueue<bool> done_;
};

struct Rates {
  std::vector<double> values;
  Json json() {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    const double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return Json{{"min", values.front()}, {"median", median}, {"max", values.back()}};
  }
};

using Prompts = std::vector<std::vector<TokenId>>;

// The last token's block is never taken from the cache: one token more than asked, so that whole
// blocks of them are.
int decode_prompt_length(const BenchConfig& bench) {
  return bench.decode_prompt_tokens > 1 ? bench.decode_prompt_tokens + 1 : 1;
}

class Bench {
 public:
  // `steps`: compute times of decode steps, as `engine` publishes them.
  Bench(LocalEngine& engine, const Config& config, int32_t vocab, const Histogram& steps)
      : engine_(engine), config_(config), vocab_(vocab), steps_(steps) {}

  // kCancelled when interrupted. `idle`: of the decode runs, the share of time between steps.
  Status run(int batch, Rates* prefill, Rates* decode, Rates* idle) {
    for (int i = -1; i < config_.bench.repetitions; ++i) {   // the first one warms up
      LS_ASSIGN_OR_RETURN(const double pp, prefill_rate(batch));
      LS_ASSIGN_OR_RETURN(const auto tg, decode_once(batch));
      if (i < 0) continue;
      prefill->values.push_back(pp);
      decode->values.push_back(tg->decode_rate());
      idle->values.push_back(tg->idle_share());
    }
    return ok_status();
  }

 private:
  StatusOr<double> prefill_rate(int batch) {
    const int tokens = config_.bench.prompt_tokens;
    const Prompts prompts = make_prompts(batch, tokens);
    const Instant begin = clock_.now();
    LS_ASSIGN_OR_RETURN(const auto watch, load(prompts, 1));
    return batch * tokens / (watch->last() - begin).in_seconds();
  }

  StatusOr<std::shared_ptr<Stopwatch>> decode_once(int batch) {
    const Prompts prompts = make_prompts(batch, decode_prompt_length(config_.bench));
    if (config_.bench.decode_prompt_tokens > 1) LS_RETURN_IF_ERROR(load(prompts, 1).status());
    return load(prompts, config_.bench.gen_tokens);
  }

  Prompts make_prompts(int batch, int tokens) {
    Prompts out(static_cast<size_t>(batch));
    for (std::vector<TokenId>& prompt : out) {
      prompt.resize(static_cast<size_t>(tokens));
      for (TokenId& id : prompt) {
        id = static_cast<TokenId>(key_.below(counter_++, static_cast<uint64_t>(vocab_)));
      }
    }
    return out;
  }

  StatusOr<std::shared_ptr<Stopwatch>> load(const Prompts& prompts, int gen_tokens) {
    auto watch = std::make_shared<Stopwatch>(prompts.size(), steps_);
    SamplingConfig sampling;
    sampling.max_tokens = gen_tokens;
    sampling.top_logprobs = -1;
    sampling.ignore_eos = true;
    for (const std::vector<TokenId>& prompt : prompts) {
      auto request = std::make_shared<Request>(make_request(prompt, sampling));
      request->id = engine_.next_id();
      LS_RETURN_IF_ERROR(engine_.submit(request, watch));
    }
    if (!watch->wait()) return make_status(StatusCode::kCancelled, "interrupted");
    LS_RETURN_IF_ERROR(watch->error());
    return watch;
  }

  LocalEngine& engine_;
  const Config& config_;
  const int32_t vocab_;
  const Histogram& steps_;
  const RngKey key_{20240229};
  uint64_t counter_ = 0;
  SystemClock clock_;
};

// Sequences, rows and KV for the largest batch, whatever the defaults are.
Config bench_config(const Config& config, const OpenModel& open) {
  Config own = config;
  const BenchConfig& b = config.bench;
  const int largest = *std::max_element(b.batch.begin(), b.batch.end());
  const int length = std::max(b.prompt_tokens + 1, decode_prompt_length(b) + b.gen_tokens);
  own.scheduling.max_seqs = std::max(1, largest);
  own.scheduling.queue_max = std::max(own.scheduling.queue_max, largest);
  own.scheduling.step_tokens_max = std::max(own.scheduling.step_tokens_max, largest);
  if (own.memory.max_context == 0) own.memory.max_context = std::max(length, 2);
  if (own.memory.kv_memory_bytes == 0) {
    const model::ForwardOptions options = forward_options(own);
    const int64_t per_sequence = length / options.block_tokens + 2;
    own.memory.kv_memory_bytes =
        per_sequence * largest *
        model::kv_block_bytes(open.spec, options.kv_type, options.block_tokens);
  }
  return own;
}

Json facts(const Config& config, const OpenModel& open) {
  return Json{{"model", open.name},
              {"prompt_tokens", config.bench.prompt_tokens},
              {"gen_tokens", config.bench.gen_tokens},
              {"decode_prompt_tokens", config.bench.decode_prompt_tokens},
              {"threads", thread_count(config)},
              {"profile", config.model.profile},
              {"kv_type", std::string(kernels::name_of(forward_options(config).kv_type))},
              {"kernels", std::string(kernels::name_of(forward_options(config).isa))},
              {"cpu", cpu_name()},
              {"fingerprint", open.spec.fingerprint.hex()},
              {"commit", commit()}};
}

void print_row(int batch, const Json& pp, const Json& tg, const Json& idle, const Config& config) {
  const auto cell = [](const Json& rate) {
    return fmt::format("{:.1f} ({:.1f} to {:.1f})", rate["median"].get<double>(),
                       rate["min"].get<double>(), rate["max"].get<double>());
  };
  print(stdout, "| {:>5} | pp{:<5} | {:>30} | tg{:<5} | {:>30} | {:>6.2f} % |\n", batch,
        config.bench.prompt_tokens, cell(pp), config.bench.gen_tokens, cell(tg),
        100.0 * idle["median"].get<double>());
  std::fflush(stdout);
}

int bench_all(const Config& config, const LoadedModel& model, LocalEngine& engine,
              const Histogram& steps, double ready_seconds) {
  Bench bench(engine, config, model.open.spec.vocab, steps);
  if (!config.common.json) {
    print(stdout, "{}\n\n| batch | prompt  | {:>30} | decode  | {:>30} | {:>8} |\n"
          "|---|---|---|---|---|---|\n",
          write_json(facts(config, model.open)), "tokens/s", "tokens/s", "idle");
  }
  for (const int batch : config.bench.batch) {
    Rates prefill, decode, idle;
    const Status status = bench.run(batch, &prefill, &decode, &idle);
    if (status.code() == StatusCode::kCancelled) return kInterrupted;
    if (!status.ok()) return fail(kFailed, status);
    const Json pp = prefill.json(), tg = decode.json();
    if (config.common.json) {
      Json line = {{"batch", batch},
                   {"prompt_tokens_per_second", pp},
                   {"gen_tokens_per_second", tg},
                   {"decode_idle_share", idle.json()},
                   {"ready_seconds", ready_seconds},
                   {"resident_bytes", resident_bytes()}};
      line.update(facts(config, model.open));
      print_json(line);
    } else {
      print_row(batch, pp, tg, idle.json(), config);
    }
  }
  return kOk;
}

}  // namespace

int run_bench(const Config& config) {
  catch_interrupts();
  SystemClock clock;
  const Instant begin = clock.now();
  auto open = open_model(config);
  if (!open.ok()) return fail_load(open.status());
  if (config.bench.batch.empty() ||
      *std::min_element(config.bench.batch.begin(), config.bench.batch.end()) < 1) {
    return fail(kWrongUse, invalid_argument("--batch takes numbers from 1 on"));
  }
  const Config own = bench_config(config, *open);
  const auto model = load_model(own, std::move(*open));
  if (!model.ok()) return fail_load(model.status());
  Metrics metrics;
  const auto engine = LocalEngine::start(*model, own, {.tenants = {}, .metrics = &metrics});
  if (!engine.ok()) return fail_load(engine.status());
  return bench_all(own, *model, **engine, decode_step_seconds(metrics),
                   (clock.now() - begin).in_seconds());
}

}  // namespace lineshaft::app
