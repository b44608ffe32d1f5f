// lineshaft pull: fetches a model file into the models folder.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <string>

#include "base/json.h"
#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/interrupt.h"
#include "lineshaft/paths.h"
#include "lineshaft/pull.h"
#include "lineshaft/terminal.h"

namespace lineshaft::app {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Shows events: JSON lines, a bar on a terminal, or a line for each 5 %.
class PullTalk {
 public:
  explicit PullTalk(bool json) : json_(json), bar_(!json && stderr_is_tty()) {}

  void operator()(const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kStart) {
      begun_ = last_ = SteadyClock::now();
      start_bytes_ = event.done_bytes;
      shown_percent_ = event.total_bytes > 0 ? event.done_bytes * 100 / event.total_bytes : 0;
    }
    if (json_) {
      print_json(event);
    } else if (event.kind == PullEvent::Kind::kProgress) {
      bar_ ? print_bar(event) : print_percent(event);
    } else {
      print_sentence(event);
    }
  }

  void end_bar() {
    if (bar_ && bar_shown_) std::fputc('\n', stderr);
    bar_shown_ = false;
  }

 private:
  double rate(const PullEvent& event) const {
    const std::chrono::duration<double> seconds = SteadyClock::now() - begun_;
    return static_cast<double>(event.done_bytes - start_bytes_) / std::max(seconds.count(), 1e-3);
  }

  // At most one progress report each `interval`, so that a fast disk is not a slow terminal.
  bool due(std::chrono::milliseconds interval) {
    const auto now = SteadyClock::now();
    if (now - last_ < interval) return false;
    last_ = now;
    return true;
  }

  void print_json(const PullEvent& event) {
    static constexpr const char* kNames[] = {"start", "progress", "retry", "verify"};
    if (event.kind == PullEvent::Kind::kProgress && !due(std::chrono::milliseconds(500))) return;
    Json line = {{"event", kNames[static_cast<int>(event.kind)]},
                 {"done_bytes", event.done_bytes},
                 {"total_bytes", event.total_bytes},
                 {"attempt", event.attempt}};
    if (!event.reason.empty()) line["reason"] = event.reason;
    std::fprintf(stdout, "%s\n", write_json(line).c_str());
    std::fflush(stdout);
  }

  void print_bar(const PullEvent& event) {
    if (!due(std::chrono::milliseconds(100))) return;
    const double speed = rate(event);
    std::string text = fmt::format(" {} {}/s", format_bytes(static_cast<double>(event.done_bytes)),
                                   format_bytes(speed));
    if (event.total_bytes > 0) {
      const double left = static_cast<double>(event.total_bytes - event.done_bytes);
      const double fraction = static_cast<double>(event.done_bytes) /
                              static_cast<double>(event.total_bytes);
      text = fmt::format("{:3.0f}%{} eta {:.0f} s", fraction * 100, text,
                         speed > 1 ? left / speed : 0.0);
      const int cells = std::clamp(terminal_width() - static_cast<int>(text.size()) - 4, 8, 40);
      text = format_bar(fraction, cells) + " " + text;
    }
    std::fprintf(stderr, "\r%s\033[K", text.c_str());
    bar_shown_ = true;
  }

  void print_percent(const PullEvent& event) {
    if (event.total_bytes <= 0) return;
    const int64_t percent = event.done_bytes * 100 / event.total_bytes;
    if (percent / 5 <= shown_percent_ / 5) return;
    shown_percent_ = percent;
    std::fprintf(stderr, "%3d%% %s of %s, %s/s\n", static_cast<int>(percent / 5 * 5),
                 format_bytes(static_cast<double>(event.done_bytes)).c_str(),
                 format_bytes(static_cast<double>(event.total_bytes)).c_str(),
                 format_bytes(rate(event)).c_str());
  }

  void print_sentence(const PullEvent& event) {
    end_bar();
    if (event.kind == PullEvent::Kind::kRetry) {
      std::fprintf(stderr, "attempt %d ended: %s; trying again\n", event.attempt,
                   event.reason.c_str());
    } else if (event.kind == PullEvent::Kind::kVerify) {
      std::fprintf(stderr, "checking SHA-256\n");
    } else if (event.done_bytes > 0) {
      std::fprintf(stderr, "resuming at %s\n",
                   format_bytes(static_cast<double>(event.done_bytes)).c_str());
    }
  }

  const bool json_;
  const bool bar_;
  bool bar_shown_ = false;
  int64_t shown_percent_ = 0;
  int64_t start_bytes_ = 0;
  SteadyClock::time_point begun_;
  SteadyClock::time_point last_;
};

int code_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument: return kWrongUse;
    case StatusCode::kCancelled: return kInterrupted;
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted: return kFailed;
    default: return kNetwork;
  }
}

Status fill_options(const PullConfig& config, PullOptions* options) {
  if (config.source.empty()) return invalid_argument("pull needs a source: see lineshaft pull -h");
  LS_ASSIGN_OR_RETURN(const PullSource source, parse_pull_source(config.source));
  options->url = source.url;
  options->destination = config.output.empty() ? (models_dir() / source.file).string()
                                               : config.output;
  options->sha256 = config.sha256;
  for (char& c : options->sha256) c = static_cast<char>(std::tolower(static_cast<uint8_t>(c)));
  const bool hex = options->sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex || (!options->sha256.empty() && options->sha256.size() != 64)) {
    return invalid_argument("--sha256 takes 64 hexadecimal digits");
  }
  options->force = config.force;
  options->stall_seconds = config.stall_seconds;
  options->attempts = config.attempts;
  return ok_status();
}

void print_result(const PullResult& result, const std::string& destination, bool json) {
  if (json) {
    const Json line = {{"event", "done"},
                       {"path", destination},
                       {"bytes", result.bytes},
                       {"sha256", result.sha256},
                       {"digest_checked", result.digest_checked},
                       {"already_there", result.already_there}};
    std::fprintf(stdout, "%s\n", write_json(line).c_str());
    return;
  }
  std::fprintf(stderr, "%s, SHA-256 %s%s\n", result.already_there ? "already there" : "done",
               result.sha256.c_str(),
               result.digest_checked ? " (as promised)" : " (nobody told what it should be)");
  std::fprintf(stdout, "%s\n", destination.c_str());
}

}  // namespace

int run_pull(const Config& config) {
  catch_interrupts();
  ignore_broken_pipes();
  PullOptions options;
  if (const Status status = fill_options(config.pull, &options); !status.ok()) {
    return fail(kWrongUse, status);
  }
  PullTalk talk(config.common.json);
  options.on_event = [&](const PullEvent& event) { talk(event); };
  if (!config.common.json) std::fprintf(stderr, "pulling %s\n", options.url.c_str());
  const StatusOr<PullResult> result = pull(options);
  talk.end_bar();
  if (!result.ok()) {
    const int code = code_of(result.status());
    return fail(static_cast<ExitCode>(code), result.status());
  }
  print_result(*result, options.destination, config.common.json);
  return kOk;
}

}  // namespace lineshaft::app
