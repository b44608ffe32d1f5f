#include "lineshaft/line_editor.h"

#include <editline/readline.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "lineshaft/interrupt.h"

namespace lineshaft::app {
namespace {
constexpr int kHistoryMax = 1000;
}

LineEditor::LineEditor(std::string history_file) : history_file_(std::move(history_file)) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(history_file_).parent_path(), error);
  using_history();
  stifle_history(kHistoryMax);
  read_history(history_file_.c_str());  // missing at the first start
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  clear_interrupts();
  const std::unique_ptr<char, void (*)(void*)> line(readline(prompt.c_str()), std::free);
  if (line) return std::string(line.get());
  if (interrupts() == 0) return std::nullopt;
  clear_interrupts();
  std::fputc('\n', stdout);
  return "";
}

void LineEditor::remember(const std::string& line) {
  if (line.empty()) return;
  add_history(line.c_str());
  write_history(history_file_.c_str());  // a history that cannot be kept is no reason to stop
}

}  // namespace lineshaft::app
