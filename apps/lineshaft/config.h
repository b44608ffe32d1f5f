// Config: the one tree of everything that can be set, with its defaults. Filled by options.h from
// flags, environment, file and these defaults, in that order; immutable afterwards. Holds values
// only; who acts on them is the command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lineshaft::app {

struct CommonConfig {
  bool json = false;             // facts as JSON objects on standard output, one a line
  std::string log_level = "warning";
};

struct ModelConfig {
  std::string model = "smollm2";   // a path or a short name
  std::string tokenizer;           // a tokenizer.json; "": the model file's own
  std::string chat_template;       // a file with one; "": the model file's own
  int threads = 0;                 // 0: one a core that this process may use
  std::string profile = "cpu-int8-1";
  std::string kv_type = "auto";    // as name_of(KvType); "auto": f32 with cpu-f32-1, else f16
  std::string kernels = "auto";    // "auto", "scalar", "avx2", "avx512"
  std::string packed_cache;        // folder for packed weights; "": pack at each start
};

struct MemoryConfig {
  int64_t max_context = 0;         // tokens a sequence; 0: the model's, or less if memory is short
  int64_t kv_memory_bytes = 0;     // all KV blocks; 0: from free memory and what can be used
  int block_tokens = 128;
};

struct SchedulingConfig {
  int max_seqs = 64;               // sequences running at once
  int queue_max = 256;             // requests waiting
  double step_ms = 0.0;            // time budget of a step; 0: from the machine
  int step_tokens_max = 512;       // rows in one step
  bool plan_ahead = true;          // plan step n + 1 while step n runs
};

struct SamplingConfig {
  double temperature = 0.0;
  int top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  uint64_t seed = 0;
  int max_tokens = 128;
  int top_logprobs = 0;
  bool ignore_eos = false;
  std::vector<std::string> stop;
};

struct GenerateConfig {
  std::string prompt;
  std::string tokens_file;
  int parallel = 1;                // prompts in flight at once
};

struct ScoreConfig {
  std::string tokens_file;
  int top = 64;
};

struct BenchConfig {
  int prompt_tokens = 512;
  int gen_tokens = 128;
  int decode_prompt_tokens = 1;    // context of a sequence when its timed answer begins
  std::vector<int> batch = {1};
  int repetitions = 3;
};

struct CompareConfig {
  std::vector<std::string> rows = {"prefill-512", "prefill-2048", "prefill-8192",
                                   "decode-1",    "decode-16",    "decode-64"};
  int rounds = 3;
  std::string peer_dir;            // of llama.cpp's programs; "": the PATH
};

struct ServeConfig {
  std::string host = "127.0.0.1";
  int port = 8080;                 // 0 picks a free one
  std::string ready_file;
  std::string keys_file;
  std::string served_model_name;   // "": the model's short name
  std::string tls_cert;
  std::string tls_key;
  std::vector<std::string> cors_origins;
  bool vllm_metrics = false;
  int connections_max = 512;
  std::string test_script;         // answers for tests; "": a model gives them
};

struct RunConfig {
  std::string system;              // "": the model's own
  std::vector<std::string> prompt;  // words of the command line; none: a dialogue
  bool with_server = false;
  bool stats = true;
};

struct PullConfig {
  std::string source;
  std::string sha256;
  std::string output;              // a file; "": the models folder
  bool force = false;
  int stall_seconds = 30;
  int attempts = 5;
};

struct RecipeConfig {
  std::string encoding;             // a model family's format, by name
  std::string dialect = "chat";     // chat, responses or messages
};

// Of the command constrain: one of the three.
struct ConstrainConfig {
  std::string schema;              // file with a JSON Schema
  std::string grammar;             // file with GBNF or a Lark-like EBNF
  std::vector<std::string> regex;  // at most one
  bool bench = false;

  bool has_regex() const { return !regex.empty(); }
};

struct Config {
  CommonConfig common;
  ConstrainConfig constrain;
  ModelConfig model;
  MemoryConfig memory;
  SchedulingConfig scheduling;
  SamplingConfig sampling;
  GenerateConfig generate;
  ScoreConfig score;
  BenchConfig bench;
  CompareConfig compare;
  ServeConfig serve;
  RunConfig run;
  PullConfig pull;
  RecipeConfig recipe;
};

}  // namespace lineshaft::app
