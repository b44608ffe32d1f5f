// Log: structured events (name, fields, severity) as one line each on standard error.
//
// An event has a name in snake_case and fields, not prose; request and step ids are fields of these
// names. Writing an event never throws and never fails its caller. Decides nothing about where
// processes keep logs: whoever started us redirects standard error.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace lineshaft {

enum class Severity : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// "debug", "info", "warning" (or "warn"), "error", "off".
StatusOr<Severity> parse_severity(std::string_view text);

// One field: a key and its value as text. Numbers print in shortest round-trip form.
struct LogField {
  std::string_view key;
  std::string value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  LogField(std::string_view k, T v) : key(k), value(fmt::format("{}", v)) {}
};

// Events below `level` are dropped from now on. `out` (for tests) replaces standard error and must
// outlive all later events; nullptr: standard error. Thread-safe against log_event.
void set_log(Severity level, std::ostream* out = nullptr);

bool log_enabled(Severity severity);

// Writes "2026-01-31T12:00:00.000Z severity event key=value key=\"value with spaces\"". A value
// with spaces, quotes or control bytes is quoted and escaped, so that what users send can never
// begin a line. Thread-safe.
void log_event(Severity severity, std::string_view event,
               std::initializer_list<LogField> fields = {}) noexcept;

}  // namespace lineshaft
