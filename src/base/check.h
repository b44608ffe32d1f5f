// CHECK: a bug of ours ends the process with a sentence. User input can never reach one.
#pragma once

#include <fmt/format.h>

#include <string>

namespace lineshaft {

// Prints "file:line: CHECK failed: condition: message" to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace lineshaft

// LS_CHECK(cond) or LS_CHECK(cond, "format {}", value). Always on, in every build.
#define LS_CHECK(condition, ...)                                                       \
  (__builtin_expect(static_cast<bool>(condition), 1)                                   \
       ? static_cast<void>(0)                                                          \
       : ::lineshaft::check_failed(__FILE__, __LINE__, #condition,                     \
                                   ::lineshaft::check_message(__VA_ARGS__)))

namespace lineshaft {
inline std::string check_message() { return {}; }
template <typename... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
}  // namespace lineshaft
