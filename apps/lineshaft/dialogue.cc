#include "lineshaft/dialogue.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/rng.h"
#include "lineshaft/sizes.h"

namespace lineshaft::app {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr char kHelp[] =
    "/system TEXT     set the system prompt and begin anew (no TEXT: the model's own)\n"
    "/set NAME VALUE  temperature, top-k, top-p, min-p, repetition-penalty, max-tokens, seed\n"
    "/regen           answer the last question again\n"
    "/reset           forget the conversation\n"
    "/stats           show or hide speed after each answer\n"
    "/exit            leave (Ctrl-D too); Ctrl-C stops an answer\n"
    "\"\"\"              begins and ends text of several lines";

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<double> number(const std::string& text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Dialogue::Outcome Dialogue::enter(const std::string& line) {
  const std::string_view text = trim(line);
  if (text.empty()) return {};
  if (text.front() == '/') return command(std::string(text));
  turns_.push_back({recipe::Role::kUser, without_quotes(text)});
  return {Action::kAnswer, ""};
}

void Dialogue::add_answer(std::string text) {
  if (text.empty()) {
    turns_.pop_back();
  } else {
    turns_.push_back({recipe::Role::kAssistant, std::move(text)});
  }
  ++answers_;
}

recipe::Conversation Dialogue::conversation() const {
  recipe::Conversation out;
  if (!system_.empty()) out.turns.push_back({recipe::Role::kSystem, system_});
  out.turns.insert(out.turns.end(), turns_.begin(), turns_.end());
  return out;
}

SamplingConfig Dialogue::sampling() const {
  SamplingConfig out = sampling_;
  out.seed = RngKey(sampling_.seed).bits(answers_);
  return out;
}

Dialogue::Outcome Dialogue::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const std::string_view rest =
      space == std::string::npos ? std::string_view() : trim(std::string_view(line).substr(space));
  if (name == "/exit" || name == "/quit" || name == "/bye") return {Action::kExit, ""};
  if (name == "/help" || name == "/?") return {Action::kNone, kHelp};
  if (name == "/regen") return regenerate();
  if (name == "/set") return set(rest);
  if (name == "/reset") {
    turns_.clear();
    return {Action::kNone, "forgotten"};
  }
  if (name == "/system") {
    system_ = without_quotes(rest);
    turns_.clear();
    return {Action::kNone, system_.empty() ? "the model's own system prompt" : "system prompt set"};
  }
  if (name == "/stats") {
    show_stats_ = !show_stats_;
    return {Action::kNone, show_stats_ ? "speed is shown" : "speed is hidden"};
  }
  const std::string near =
      nearest(name, {"/help", "/exit", "/regen", "/set", "/reset", "/system", "/stats"});
  return {Action::kNone,
          fmt::format("no command {}{}; /help lists them", name,
                      near.empty() ? "" : ", did you mean " + near + "?")};
}

Dialogue::Outcome Dialogue::regenerate() {
  if (!turns_.empty() && turns_.back().role == recipe::Role::kAssistant) turns_.pop_back();
  if (turns_.empty()) return {Action::kNone, "there is no question yet"};
  return {Action::kAnswer, ""};
}

Dialogue::Outcome Dialogue::set(std::string_view rest) {
  if (rest.empty()) return {Action::kNone, settings()};
  const size_t space = rest.find(' ');
  const std::string_view name = rest.substr(0, space);
  const std::string value(
      space == std::string_view::npos ? std::string_view() : trim(rest.substr(space)));
  const Status status = set_value(name, value);
  return {Action::kNone, status.ok() ? fmt::format("{} = {}", name, value)
                                     : std::string(message_of(status))};
}

Status Dialogue::set_value(std::string_view name, const std::string& value) {
  const std::optional<double> given = number(value);
  if (!given) return invalid_argument("/set {} takes a number", name);
  const double v = *given;
  const auto within = [&](double low, double high) -> Status {
    if (v >= low && v <= high) return ok_status();
    return invalid_argument("{} is between {} and {}", name, low, high);
  };
  if (name == "temperature") {
    LS_RETURN_IF_ERROR(within(0, 2));
    sampling_.temperature = v;
  } else if (name == "top-k") {
    LS_RETURN_IF_ERROR(within(0, 1 << 24));
    sampling_.top_k = static_cast<int>(v);
  } else if (name == "top-p") {
    LS_RETURN_IF_ERROR(within(1e-6, 1));
    sampling_.top_p = v;
  } else if (name == "min-p") {
    LS_RETURN_IF_ERROR(within(0, 1));
    sampling_.min_p = v;
  } else if (name == "repetition-penalty") {
    LS_RETURN_IF_ERROR(within(0.01, 100));
    sampling_.repetition_penalty = v;
  } else if (name == "max-tokens") {
    LS_RETURN_IF_ERROR(within(1, 1 << 24));
    sampling_.max_tokens = static_cast<int>(v);
  } else if (name == "seed") {
    LS_RETURN_IF_ERROR(within(0, 9007199254740992.0));
    sampling_.seed = static_cast<uint64_t>(v);
    answers_ = 0;   // the same seed and the same questions give the same answers again
  } else {
    return invalid_argument("'{}' is nothing that can be set; see /help", name);
  }
  return ok_status();
}

std::string Dialogue::settings() const {
  const SamplingConfig& s = sampling_;
  return fmt::format(
      "temperature = {}\ntop-k = {}\ntop-p = {}\nmin-p = {}\nrepetition-penalty = {}\n"
      "max-tokens = {}\nseed = {}",
      s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.max_tokens, s.seed);
}

bool wants_more_lines(std::string_view text) {
  text = trim(text);
  if (!text.starts_with(kQuotes)) return false;
  return text.size() < 2 * kQuotes.size() || !text.ends_with(kQuotes);
}

std::string without_quotes(std::string_view text) {
  text = trim(text);
  if (!text.starts_with(kQuotes) || wants_more_lines(text)) return std::string(text);
  text.remove_prefix(kQuotes.size());
  text.remove_suffix(kQuotes.size());
  return std::string(trim(text));
}

}  // namespace lineshaft::app
