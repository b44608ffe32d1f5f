// lineshaft serve: OpenAI's API over HTTP until a signal comes. The first one drains, the second
// stops at once.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/machine.h"
#include "lineshaft/print.h"
#include "lineshaft/serving.h"
#include "lineshaft/terminal.h"
#include "lineshaft/version.h"

namespace lineshaft::app {
namespace {

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

void print_start(const Config& config, const LoadedModel& model, Serving& serving,
                 double seconds) {
  const MemoryPlan& plan = model.plan;
  const ServeConfig& s = config.serve;
  print(stderr, "lineshaft {}: {} ({}, {}, {})\n", version(), model.open.name,
        model.open.spec.name, weight_format(*model.open.file),
        bytes_text(static_cast<int64_t>(model.open.file->size())));
  print(stderr, "context: {} tokens a request{}\n", plan.context_tokens,
        plan.context_lowered ? " (lowered to fit memory)" : "");
  print(stderr, "memory: {} at most ({} of it KV, {} tokens, {}), {} free\n",
        bytes_text(plan.total_bytes()), bytes_text(plan.kv_bytes()),
        plan.kv_tokens(config.memory.block_tokens),
        kernels::name_of(forward_options(config).kv_type),
        bytes_text(memory_facts().available_bytes));
  print(stderr, "compute: {}, {}, {} threads, steps of {:.0f} ms, {} sequences at once\n",
        kernels::name_of(forward_options(config).isa), config.model.profile,
        thread_count(config), serving.engine().step_ms(), config.scheduling.max_seqs);
  print(stderr, "access: {}, TLS {}, CORS {}\n",
        s.keys_file.empty() ? "no keys, this machine only" : "keys from " + s.keys_file,
        s.tls_cert.empty() ? "off" : "on", s.cors_origins.empty() ? "off" : "on");
  const auto chat = chat_format(config, model.open.tokenizer, model.open.chat_template,
                                model.open.name);
  if (!chat.ok()) {
    const std::string_view why = message_of(chat.status());
    print(stderr, "chat: {}\n", why);
  }
  print(stderr, "ready in {:.2f} s: {}\n{}\n", seconds, serving.url(),
        serving.curl_line());
}

// Under its final name only when it is whole: whoever waits for it reads it at once.
Status write_ready_file(const std::string& path, const std::string& address) {
  const std::string temporary = path + ".new";
  {
    std::ofstream out(temporary, std::ios::trunc);
    if (!(out << address << "\n" << std::flush)) {
      return unavailable("cannot write --ready-file {}", path);
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) == 0) return ok_status();
  return unavailable("cannot write --ready-file {}", path);
}

void wait_for_signal(int count) {
  while (interrupts() < count) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

int drain(Serving& serving) {
  serving.server().begin_drain();
  const int left = serving.server().live_requests();
  print(stderr, "stopping{}\n",
        left == 0 ? "" : fmt::format("; unfinished requests: {} (again to stop at once)", left));
  while (serving.server().live_requests() > 0 && interrupts() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const bool at_once = interrupts() >= 2;
  serving.server().stop(at_once ? Duration{} : Duration::seconds(5));
  return at_once ? kInterrupted : kOk;
}

}  // namespace

int run_serve(const Config& config) {
  catch_interrupts();
  SystemClock clock;
  const Instant begin = clock.now();
  if (!config.serve.ready_file.empty()) unlink(config.serve.ready_file.c_str());
  // Before minutes of loading.
  if (const Status startable = api::Server::check(server_config(config)); !startable.ok()) {
    return fail(startable.code() == StatusCode::kUnavailable ? kNetwork : kWrongUse, startable);
  }
  std::optional<LoadedModel> model;
  if (config.serve.test_script.empty()) {
    auto loaded = load_model(config);
    if (!loaded.ok()) return fail_load(loaded.status());
    model = *std::move(loaded);
  }
  const auto serving =
      model ? Serving::start(config, *model) : Serving::start_scripted(config);
  if (!serving.ok()) {
    return serving.status().code() == StatusCode::kUnavailable
               ? fail(kNetwork, serving.status())
               : fail_load(serving.status());
  }
  const double seconds = (clock.now() - begin).in_seconds();
  if (model) {
    print_start(config, *model, **serving, seconds);
  } else {
    print(stderr, "lineshaft {}: answers from {}\nready in {:.2f} s: {}\n", version(),
          config.serve.test_script, seconds, (*serving)->url());
  }
  if (config.common.json) {
    print_json(Json{{"event", "ready"}, {"address", (*serving)->address()}, {"seconds", seconds}});
  }
  if (!config.serve.ready_file.empty()) {
    const Status written = write_ready_file(config.serve.ready_file, (*serving)->address());
    if (!written.ok()) return fail(kFailed, written);
  }
  wait_for_signal(1);
  return drain(**serving);
}

}  // namespace lineshaft::app
