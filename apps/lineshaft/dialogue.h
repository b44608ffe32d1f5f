// Dialogue: what a chat in a terminal remembers and how its slash commands change it. Prints and
// reads nothing, so that it can be tested without a terminal.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "lineshaft/config.h"
#include "recipe/conversation.h"

namespace lineshaft::app {

class Dialogue {
 public:
  Dialogue(std::string system, const SamplingConfig& sampling)
      : system_(std::move(system)), sampling_(sampling) {}

  enum class Action {
    kNone,    // only `text` is to be shown
    kAnswer,  // the model's turn
    kExit,
  };
  struct Outcome {
    Action action = Action::kNone;
    std::string text;
  };

  // What the user entered: a slash command, or words for the model.
  Outcome enter(const std::string& line);

  // The model's words, perhaps cut short; empty ones take the user's turn back.
  void add_answer(std::string text);

  // Everything said so far, the system prompt first where one is set.
  recipe::Conversation conversation() const;

  // For the next answer: each has a seed of its own, derived from the dialogue's.
  SamplingConfig sampling() const;

  bool show_stats() const { return show_stats_; }
  void set_show_stats(bool show) { show_stats_ = show; }

 private:
  Outcome command(const std::string& line);
  Outcome regenerate();
  Outcome set(std::string_view rest);
  Status set_value(std::string_view name, const std::string& value);
  std::string settings() const;

  std::string system_;
  SamplingConfig sampling_;
  std::vector<recipe::Turn> turns_;
  uint64_t answers_ = 0;     // also those that were taken back
  bool show_stats_ = true;
};

// True while text that began with three quotes has no closing three yet.
bool wants_more_lines(std::string_view text);

// Text without its enclosing three quotes.
std::string without_quotes(std::string_view text);

}  // namespace lineshaft::app
