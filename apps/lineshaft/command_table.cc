#include "lineshaft/command_table.h"

#include <CLI/CLI.hpp>

#include "lineshaft/commands.h"
#include "lineshaft/sizes.h"

namespace lineshaft::app {
namespace {

CLI::Validator size_unit() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const StatusOr<int64_t> bytes = parse_size(text);
        if (!bytes.ok()) return std::string(message_of(bytes.status()));
        text = std::to_string(*bytes);
        return {};
      },
      "SIZE");
}

void add_common(CLI::App* app, Config* c) {
  app->add_flag("--json", c->common.json, "Facts as JSON on standard output, one object a line")
      ->group("General");
  app->add_option("--log-level", c->common.log_level, "debug, info, warning, error or off")
      ->group("General");
}

void add_model(CLI::App* app, Config* c) {
  app->add_option("MODEL,-m,--model", c->model.model, "A .gguf file or a short name")
      ->group("Model");
  app->add_option("--tokenizer", c->model.tokenizer,
                  "A tokenizer.json in place of the model file's own")
      ->group("Model");
}

void add_template(CLI::App* app, Config* c) {
  app->add_option("--chat-template,--template", c->model.chat_template,
                  "A file with a chat template, or a tokenizer_config.json, in place of the "
                  "model file's own")
      ->group("Model");
}

void add_compute(CLI::App* app, Config* c) {
  app->add_option("-t,--threads", c->model.threads, "Compute threads; 0: one a core")
      ->check(CLI::Range(0, 1024))
      ->group("Model");
  app->add_option("--profile", c->model.profile,
                  "Numerics: cpu-int8-1 (near float), cpu-int8-2 (fastest) or cpu-f32-1")
      ->check(CLI::IsMember({"cpu-int8-2", "cpu-int8-1", "cpu-f32-1"}))
      ->group("Model");
  app->add_option("--kv-type", c->model.kv_type,
                  "Stored keys and values: f32, f16, bf16, q8 (half the memory of f16) or auto")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16", "q8"}))
      ->group("Model");
  app->add_option("--packed-cache", c->model.packed_cache,
                  "Folder that keeps packed weights, for quicker starts; none: pack each time")
      ->group("Model");
  app->add_option("--kernels", c->model.kernels, "auto, scalar, avx2 or avx512")
      ->check(CLI::IsMember({"auto", "scalar", "avx2", "avx512"}))
      ->group("Model");
  app->add_option("-c,--max-context,--ctx-size,--max-model-len", c->memory.max_context,
                  "Tokens of one sequence, prompt and answer; 0: the model's, or what fits")
      ->transform(size_unit())
      ->group("Memory");
  app->add_option("--kv-memory", c->memory.kv_memory_bytes,
                  "Memory for keys and values of all sequences; 0: chosen from what is free")
      ->transform(size_unit())
      ->group("Memory");
  app->add_option("--block-tokens", c->memory.block_tokens, "Positions of one KV block")
      ->check(CLI::IsMember({16, 32, 64, 128}))
      ->group("Memory");
}

void add_scheduling(CLI::App* app, Config* c) {
  app->add_option("--max-seqs,--max-num-seqs", c->scheduling.max_seqs,
                  "Sequences running at once (also -np); context is not divided by it")
      ->check(CLI::Range(1, 1024))
      ->group("Scheduling");
  app->add_option("--queue-max", c->scheduling.queue_max, "Requests waiting before 429")
      ->check(CLI::Range(1, 1'000'000))
      ->group("Scheduling");
  app->add_option("--step-ms", c->scheduling.step_ms,
                  "Time that one step may take, in milliseconds; 0: from the machine")
      ->check(CLI::Range(0.0, 60'000.0))
      ->group("Scheduling");
  app->add_option("--step-tokens-max", c->scheduling.step_tokens_max, "Rows of one step at most")
      ->check(CLI::Range(1, 65'536))
      ->group("Scheduling");
  app->add_flag("--plan-ahead,!--no-plan-ahead", c->scheduling.plan_ahead,
                "Plan the next step while one runs")
      ->group("Scheduling");
}

void add_sampling(CLI::App* app, Config* c) {
  SamplingConfig& s = c->sampling;
  const auto add = [&](const char* names, auto& field, const char* text) {
    return app->add_option(names, field, text)->group("Sampling");
  };
  add("-n,--max-tokens", s.max_tokens, "Generated tokens at most")->check(CLI::Range(1, 1 << 24));
  add("--temperature,--temp", s.temperature, "0: the likeliest token")->check(CLI::Range(0.0, 2.0));
  add("--top-k", s.top_k, "Keep the k likeliest; 0: all")->check(CLI::Range(0, 1 << 24));
  add("--top-p", s.top_p, "Keep the likeliest of this total")->check(CLI::Range(1e-6, 1.0));
  add("--min-p", s.min_p, "Drop below this part of the best")->check(CLI::Range(0.0, 1.0));
  add("--repetition-penalty,--repeat-penalty", s.repetition_penalty, "1: none")
      ->check(CLI::Range(0.01, 100.0));
  add("--presence-penalty", s.presence_penalty, "0: none")->check(CLI::Range(-2.0, 2.0));
  add("--frequency-penalty", s.frequency_penalty, "0: none")->check(CLI::Range(-2.0, 2.0));
  add("-s,--seed", s.seed, "Of the noise; equal seeds give equal answers");
  app->add_flag("--ignore-eos", s.ignore_eos, "Go on after an end-of-answer token")
      ->group("Sampling");
}

void constrain_options(CLI::App* app, Config* c) {
  ConstrainConfig& k = c->constrain;
  app->add_option("--schema", k.schema, "A file with a JSON Schema")->group("Input");
  app->add_option("--grammar", k.grammar, "A file with a grammar: GBNF or Lark-like EBNF")
      ->group("Input");
  app->add_option("--regex", k.regex, "A regular expression for the whole text")
      ->expected(1)
      ->group("Input");
  app->add_flag("--bench", k.bench, "Also time compiling and the masks of each instance's tokens")
      ->group("Input");
  add_model(app, c);
  add_common(app, c);
}

void tokenize_options(CLI::App* app, Config* c) {
  add_model(app, c);
  add_common(app, c);
}

void generate_options(CLI::App* app, Config* c) {
  add_model(app, c);
  GenerateConfig& g = c->generate;
  app->add_option("-p,--prompt", g.prompt, "Raw text; BOS is added as the file says")
      ->group("Input");
  app->add_option("--tokens", g.tokens_file, "Prompts, a JSON array of ids a line; -: stdin")
      ->group("Input");
  app->add_option("--parallel", g.parallel, "Prompts in flight at once; answers keep their order")
      ->check(CLI::Range(1, 1024))
      ->group("Input");
  add_sampling(app, c);
  app->add_option("--stop", c->sampling.stop, "Text that ends the answer; may be given again")
      ->group("Sampling");
  add_compute(app, c);
  app->add_option("--step-ms", c->scheduling.step_ms, "Time of one step; 0: from the machine")
      ->check(CLI::Range(0.0, 60'000.0))
      ->group("Scheduling");
  add_common(app, c);
}

void score_options(CLI::App* app, Config* c) {
  add_model(app, c);
  app->add_option("--tokens", c->score.tokens_file, "A JSON array of token ids a line; -: stdin")
      ->group("Input");
  app->add_option("--top", c->score.top, "Best logits to tell after the last token")
      ->check(CLI::Range(0, 1 << 24))
      ->group("Output");
  add_compute(app, c);
  add_common(app, c);
}

void bench_options(CLI::App* app, Config* c) {
  add_model(app, c);
  BenchConfig& b = c->bench;
  app->add_option("--prompt-tokens", b.prompt_tokens, "Length of a prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->group("Load");
  app->add_option("--gen-tokens", b.gen_tokens, "Generated tokens of an answer")
      ->check(CLI::Range(2, 1 << 24))
      ->group("Load");
  app->add_option("--decode-prompt-tokens", b.decode_prompt_tokens,
                  "Context of each sequence when decode is timed")
      ->check(CLI::Range(1, 1 << 24))
      ->group("Load");
  app->add_option("--batch", b.batch, "Sequences at once; several numbers: several rows")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->group("Load");
  app->add_option("-r,--repetitions", b.repetitions, "Measurements, after one that warms up")
      ->check(CLI::Range(1, 1000))
      ->group("Load");
  add_compute(app, c);
  app->add_option("--step-ms", c->scheduling.step_ms, "Time of one step; 0: from the machine")
      ->check(CLI::Range(0.0, 60'000.0))
      ->group("Scheduling");
  add_common(app, c);
}

void compare_options(CLI::App* app, Config* c) {
  add_model(app, c);
  CompareConfig& o = c->compare;
  app->add_option("--rows", o.rows, "prefill-TOKENS and decode-SEQUENCES")
      ->delimiter(',')
      ->group("Load");
  app->add_option("--rounds", o.rounds, "Measurements of each side")
      ->check(CLI::Range(1, 1000))
      ->group("Load");
  app->add_option("--peer-dir", o.peer_dir, "Folder of llama-bench and llama-batched-bench; "
                                            "default: the PATH")
      ->group("Load");
  add_compute(app, c);
  add_common(app, c);
}

void add_server(CLI::App* app, Config* c) {
  ServeConfig& s = c->serve;
  const auto add = [&](const char* names, auto& field, const char* text) {
    return app->add_option(names, field, text)->group("Server");
  };
  add("--host", s.host, "Address to bind; others than this machine's own need --keys");
  add("--port", s.port, "0: a free one")->check(CLI::Range(0, 65'535));
  add("--keys,--api-keys-file", s.keys_file, "A TOML file of keys, tenants and limits");
  add("--served-model-name,--alias", s.served_model_name, "The name that clients give");
  add("--tls-cert", s.tls_cert, "PEM chain; with --tls-key: HTTPS only");
  add("--tls-key", s.tls_key, "PEM key");
  add("--cors-origin", s.cors_origins, "Origin that browsers may call from; may be given again");
  add("--connections-max", s.connections_max, "Beyond it: 503")->check(CLI::Range(1, 100'000));
  app->add_flag("--vllm-metrics", s.vllm_metrics, "Also print metrics under vLLM's names")
      ->group("Server");
}

void serve_options(CLI::App* app, Config* c) {
  add_model(app, c);
  add_template(app, c);
  add_server(app, c);
  app->add_option("--encoding", c->recipe.encoding,
                  "deepseek_v3, deepseek_r1, deepseek_v31, deepseek_v4 or deepseek_v41; "
                  "default: as the model's own template has it")
      ->group("Model");
  app->add_option("--ready-file", c->serve.ready_file, "Gets the address when all is ready")
      ->group("Server");
  app->add_option("--test-script", c->serve.test_script,
                  "For tests of clients: no model, answers from this JSON file")
      ->group("Server");
  add_compute(app, c);
  add_scheduling(app, c);
  add_common(app, c);
}

void run_options(CLI::App* app, Config* c) {
  c->sampling.temperature = 0.6;
  c->sampling.top_p = 0.95;
  c->sampling.max_tokens = 1024;
  c->sampling.top_logprobs = -1;
  add_model(app, c);
  add_template(app, c);
  app->add_option("PROMPT", c->run.prompt, "One question; without it: a dialogue");
  app->add_option("--system", c->run.system, "The system prompt; default: the model's own")
      ->group("Chat");
  app->add_flag("--stats,!--no-stats", c->run.stats, "Speed after each answer")->group("Chat");
  app->add_flag("--with-server", c->run.with_server, "Serve the API beside the chat")
      ->group("Chat");
  add_sampling(app, c);
  add_server(app, c);
  add_compute(app, c);
  add_scheduling(app, c);
  add_common(app, c);
}

void inspect_options(CLI::App* app, Config* c) {
  add_model(app, c);
  add_compute(app, c);
  add_common(app, c);
}

void doctor_options(CLI::App* app, Config* c) {
  add_model(app, c);
  add_compute(app, c);
  add_common(app, c);
}

void pull_options(CLI::App* app, Config* c) {
  PullConfig& p = c->pull;
  app->add_option("SOURCE", p.source, "hf://org/repo/file.gguf or an https:// address");
  app->add_option("--sha256", p.sha256, "The digest that the file must have");
  app->add_option("-o,--output", p.output, "Where to put it; default: the models folder");
  app->add_flag("--force", p.force, "Fetch even if the file exists");
  app->add_option("--stall-seconds", p.stall_seconds, "Without a byte, then a new attempt")
      ->check(CLI::Range(1, 3600));
  app->add_option("--attempts", p.attempts, "Attempts before giving up")->check(CLI::Range(1, 100));
  add_common(app, c);
}

void recipe_options(CLI::App* app, Config* c) {
  RecipeConfig& r = c->recipe;
  app->add_option("--encoding", r.encoding,
                  "deepseek_v3, deepseek_r1, deepseek_v31, deepseek_v4, deepseek_v41 or template; "
                  "default: as the model's own template has it");
  app->add_option("--dialect", r.dialect, "Of the requests: chat, responses or messages")
      ->check(CLI::IsMember({"chat", "responses", "messages"}));
  add_model(app, c);
  add_template(app, c);
  add_common(app, c);
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      {"run", "Chat with a model in this terminal", run_options, run_run},
      {"serve", "Serve OpenAI's and Anthropic's APIs over HTTP", serve_options, run_serve},
      {"pull", "Fetch a model file", pull_options, run_pull},
      {"generate", "Answer a raw prompt or a file of prompts", generate_options, run_generate},
      {"score", "Log-probabilities of given tokens", score_options, run_score},
      {"tokenize", "Turn lines of text into token ids", tokenize_options, run_tokenize},
      {"constrain", "Judge texts by a schema, grammar or expression", constrain_options,
       run_constrain},
      {"encode", "Show the prompts that requests become", recipe_options, run_encode},
      {"decode", "Turn what a model said into replies", recipe_options, run_decode},
      {"inspect", "Show a model file's metadata, tensors and memory plan", inspect_options,
       run_inspect},
      {"bench", "Measure prefill and decode speed", bench_options, run_bench},
      {"bench compare", "Measure llama.cpp's speed and ours, in turn", compare_options,
       run_bench_compare},
      {"doctor", "Check this machine and say what to fix", doctor_options, run_doctor},
  };
  return table;
}

}  // namespace lineshaft::app
