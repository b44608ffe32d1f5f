// LineEditor: lines from a terminal with editing and a history that survives (libedit).
#pragma once

#include <optional>
#include <string>

namespace lineshaft::app {

class LineEditor {
 public:
  // The history is read from `history_file` and kept there; its folder is made if missing.
  explicit LineEditor(std::string history_file);

  // nullopt at the end of input (Ctrl-D); an empty line after Ctrl-C.
  std::optional<std::string> read(const std::string& prompt);

  // Adds what was entered to the history, in memory and in the file.
  void remember(const std::string& line);

 private:
  std::string history_file_;
};

}  // namespace lineshaft::app
