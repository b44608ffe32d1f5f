#include "recipe/encoding/deepseek_v3.h"

#include <utility>

#include "recipe/encoding/deepseek_text.h"

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kCallsBegin = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kCallSep = "<｜tool▁sep｜>";
constexpr std::string_view kResultsBegin = "<｜tool▁outputs▁begin｜>";
constexpr std::string_view kResultsEnd = "<｜tool▁outputs▁end｜>";
constexpr std::string_view kResultBegin = "<｜tool▁output▁begin｜>";
constexpr std::string_view kResultEnd = "<｜tool▁output▁end｜>";

bool is_system(const Turn& turn) {
  return turn.role == Role::kSystem || turn.role == Role::kDeveloper ||
         turn.role == Role::kNotice;
}

// What an assistant said after its reasoning.
std::string_view after_thinking(std::string_view text, bool last_mark) {
  const size_t mark =
      last_mark ? text.rfind(deepseek::kThinkEnd) : text.find(deepseek::kThinkEnd);
  return mark == text.npos ? text : text.substr(mark + deepseek::kThinkEnd.size());
}

void write_system(PieceList& out, const Conversation& conversation, bool last_only) {
  std::string text;
  bool first = true;
  for (const Turn& turn : conversation.turns) {
    if (!is_system(turn)) continue;
    if (last_only) text.clear();
    if (!first && !last_only) text += "\n\n";
    text += turn.content;
    first = false;
  }
  out.plain(text);
}

// V3 and R1. The template never forgets that it has seen a call or a result: what begins a round is
// written for the first of the whole dialogue alone, and a round is closed by calls after that one.
class WriterV3 {
 public:
  explicit WriterV3(bool reasons) : reasons_(reasons) {}

  std::vector<Piece> write(const Conversation& conversation, bool open_answer) {
    out_.control(deepseek::kBegin);
    write_system(out_, conversation, reasons_);
    for (const Turn& turn : conversation.turns) write_turn(turn);
    if (after_result_) out_.control(kResultsEnd);
    if (open_answer && !after_result_ && !unfinished_) {
      out_.control(deepseek::kAssistant);
      if (reasons_) {
        out_.control(deepseek::kThink);
        out_.plain("\n");
      }
    }
    return std::move(out_).take();
  }

 private:
  void write_turn(const Turn& turn) {
    switch (turn.role) {
      case Role::kSystem:
      case Role::kDeveloper:
      case Role::kNotice: return;
      case Role::kUser:
      case Role::kReminder:
        out_.control(deepseek::kUser);
        out_.plain(turn.content);
        after_result_ = false;
        return;
      case Role::kAssistant:
        if (turn.has_content) return write_words(turn);
        for (const ToolCall& call : turn.calls) write_call(call);
        after_result_ = false;
        return;
      case Role::kTool:
        if (std::exchange(any_result_, true)) {
          out_.plain("\n");
        } else {
          out_.control(kResultsBegin);
        }
        out_.control(kResultBegin);
        out_.plain(turn.content);
        out_.control(kResultEnd);
        after_result_ = true;
        return;
    }
  }

  void write_words(const Turn& turn) {
    out_.control(after_result_ ? kResultsEnd : deepseek::kAssistant);
    out_.plain(reasons_ ? after_thinking(turn.content, true) : turn.content);
    unfinished_ = turn.unfinished;
    if (!unfinished_) out_.control(deepseek::kEnd);
    after_result_ = false;
  }

  void write_call(const ToolCall& call) {
    const bool first = !std::exchange(any_call_, true);
    if (first) {
      out_.control(deepseek::kAssistant);
      out_.control(kCallsBegin);
    } else {
      out_.plain("\n");
    }
    out_.control(kCallBegin);
    out_.plain("function");
    out_.control(kCallSep);
    out_.plain(call.name);
    out_.plain("\n```json\n");
    out_.plain(call.arguments);
    out_.plain("\n```");
    out_.control(kCallEnd);
    if (first) return;
    out_.control(kCallsEnd);
    out_.control(deepseek::kEnd);
  }

  const bool reasons_;
  PieceList out_;
  bool any_call_ = false;
  bool any_result_ = false;
  bool after_result_ = false;
  bool unfinished_ = false;
};

class WriterV31 {
 public:
  std::vector<Piece> write(const Conversation& conversation, bool open_answer) {
    out_.control(deepseek::kBegin);
    write_system(out_, conversation, false);
    for (const Turn& turn : conversation.turns) write_turn(turn, conversation.thinking);
    if (open_answer && after_user_) {
      out_.control(deepseek::kAssistant);
      out_.control(conversation.thinking ? deepseek::kThink : deepseek::kThinkEnd);
    }
    return std::move(out_).take();
  }

 private:
  void write_turn(const Turn& turn, bool thinking) {
    if (is_system(turn)) return;
    if (turn.role == Role::kTool) {
      out_.control(kResultBegin);
      out_.plain(turn.content);
      out_.control(kResultEnd);
      after_user_ = false;
      after_result_ = true;
    } else if (turn.role == Role::kAssistant) {
      write_assistant(turn, thinking);
    } else {
      out_.control(deepseek::kUser);
      out_.plain(turn.content);
      after_user_ = true;
      after_result_ = false;
    }
  }

  void write_assistant(const Turn& turn, bool thinking) {
    if (std::exchange(after_user_, false)) {
      out_.control(deepseek::kAssistant);
      const bool reasons = turn.calls.empty() && turn.unfinished && thinking;
      out_.control(reasons ? deepseek::kThink : deepseek::kThinkEnd);
    }
    const bool whole = std::exchange(after_result_, false) || !turn.calls.empty();
    out_.plain(whole ? turn.content : after_thinking(turn.content, false));
    if (!turn.calls.empty()) out_.control(kCallsBegin);
    for (const ToolCall& call : turn.calls) {
      out_.control(kCallBegin);
      out_.plain(call.name);
      out_.control(kCallSep);
      out_.plain(call.arguments);
      out_.control(kCallEnd);
    }
    if (!turn.calls.empty()) out_.control(kCallsEnd);
    if (!turn.unfinished) out_.control(deepseek::kEnd);
  }

  PieceList out_;
  bool after_user_ = false;
  bool after_result_ = false;
};

}  // namespace

DeepSeekV3Encoder::DeepSeekV3Encoder(std::shared_ptr<const Tokenizer> tokenizer,
                                     DeepSeekV3Version version)
    : ChatEncoder(std::move(tokenizer)), version_(version) {}

StatusOr<std::shared_ptr<const DeepSeekV3Encoder>> DeepSeekV3Encoder::make(
    std::shared_ptr<const Tokenizer> tokenizer, DeepSeekV3Version version) {
  std::vector<Piece> needed;
  for (const std::string_view token :
       {deepseek::kBegin, deepseek::kEnd, deepseek::kUser, deepseek::kAssistant, kCallsBegin,
        kCallsEnd, kCallBegin, kCallEnd, kCallSep, kResultsBegin, kResultsEnd, kResultBegin,
        kResultEnd}) {
    needed.push_back({true, std::string(token)});
  }
  if (version != DeepSeekV3Version::kV3) {
    needed.push_back({true, std::string(deepseek::kThink)});
    needed.push_back({true, std::string(deepseek::kThinkEnd)});
  }
  const auto ids = encode_pieces(needed, *tokenizer);
  if (!ids.ok()) return ids.status();
  return std::shared_ptr<const DeepSeekV3Encoder>(
      new DeepSeekV3Encoder(std::move(tokenizer), version));
}

std::vector<Piece> DeepSeekV3Encoder::pieces_of(const Conversation& conversation,
                                                DeepSeekV3Version version, bool open_answer) {
  if (version == DeepSeekV3Version::kV31) return WriterV31().write(conversation, open_answer);
  return WriterV3(version == DeepSeekV3Version::kR1).write(conversation, open_answer);
}

StatusOr<std::vector<Piece>> DeepSeekV3Encoder::pieces(const Conversation& conversation,
                                                       bool open_answer) const {
  return pieces_of(conversation, version_, open_answer);
}

}  // namespace lineshaft::recipe
