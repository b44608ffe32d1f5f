#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <memory>
#include <utility>

namespace lineshaft {
namespace {

using Sink = std::shared_ptr<spdlog::sinks::sink>;

std::shared_ptr<spdlog::logger> make_logger(Sink sink) {
  auto logger = std::make_shared<spdlog::logger>("lineshaft", std::move(sink));
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc));
  logger->set_error_handler([](const std::string&) {});  // a full disk must not end a request
  return logger;
}

struct State {
  std::atomic<Severity> level{Severity::kWarning};
  std::atomic<std::shared_ptr<spdlog::logger>> logger{
      make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>())};
};

State& state() {
  static State* const s = new State;  // never destroyed: threads may log until the very end
  return *s;
}

spdlog::level::level_enum spdlog_level(Severity severity) {
  switch (severity) {
    case Severity::kDebug: return spdlog::level::debug;
    case Severity::kInfo: return spdlog::level::info;
    case Severity::kWarning: return spdlog::level::warn;
    case Severity::kError: return spdlog::level::err;
    case Severity::kOff: break;
  }
  return spdlog::level::off;
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (unsigned char c : text) {
    if (c <= ' ' || c == '"' || c == '\\' || c == '=' || c == 0x7f) return true;
  }
  return false;
}

void append_value(std::string* out, std::string_view text) {
  if (!needs_quotes(text)) {
    out->append(text);
    return;
  }
  out->push_back('"');
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c < ' ' || c == 0x7f) {
      fmt::format_to(std::back_inserter(*out), "\\x{:02x}", c);
    } else {
      out->push_back(static_cast<char>(c));
    }
  }
  out->push_back('"');
}

}  // namespace

StatusOr<Severity> parse_severity(std::string_view text) {
  if (text == "debug") return Severity::kDebug;
  if (text == "info") return Severity::kInfo;
  if (text == "warning" || text == "warn") return Severity::kWarning;
  if (text == "error") return Severity::kError;
  if (text == "off") return Severity::kOff;
  return invalid_argument("'{}' is no log level; use debug, info, warning, error or off", text);
}

void set_log(Severity level, std::ostream* out) {
  Sink sink;
  if (out != nullptr) {
    sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(*out);
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  state().logger.store(make_logger(std::move(sink)));
  state().level.store(level);
}

bool log_enabled(Severity severity) {
  return severity != Severity::kOff && severity >= state().level.load();
}

void log_event(Severity severity, std::string_view event,
               std::initializer_list<LogField> fields) noexcept {
  if (!log_enabled(severity)) return;
  try {
    std::string line(event);
    for (const LogField& field : fields) {
      line.push_back(' ');
      line.append(field.key);
      line.push_back('=');
      append_value(&line, field.value);
    }
    state().logger.load()->log(spdlog_level(severity), "{}", line);
  } catch (...) {
    // A log line is not worth a request.
  }
}

}  // namespace lineshaft
