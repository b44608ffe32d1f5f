// print: formatted text to a stream. Unlike fmt::print it does not throw when nothing can be
// written (a full disk, a reader that left); main looks at the stream's state at the end.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <utility>

namespace lineshaft::app {

template <typename... Args>
void print(std::FILE* out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), out);
}

}  // namespace lineshaft::app
