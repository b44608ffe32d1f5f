#include "recipe/encoding/deepseek.h"

#include <algorithm>
#include <utility>

#include "recipe/encoding/deepseek_text.h"
#include "recipe/encoding/spaced_json.h"

namespace lineshaft::recipe {
namespace {

using Version = DeepSeekOptions::Version;

// The spelling of calls in one version.
struct Dsml {
  std::string_view block;
  std::string_view call;
  std::string_view parameter;
  NumberStyle numbers;
};
constexpr Dsml kDsmlV4 = {"tool_calls", "invoke", "parameter", NumberStyle::kPlain};
constexpr Dsml kDsmlV41 = {" calls", " invoke", " parameter", NumberStyle::kPython};

bool is_empty(const Turn& turn) { return turn.content.empty() && turn.images.empty(); }

bool is_system(Role role) {
  return role == Role::kSystem || role == Role::kDeveloper || role == Role::kNotice;
}

// Writes one prompt. Every string of the conversation goes through out_.plain().
class Writer {
 public:
  Writer(const Conversation& conversation, const DeepSeekOptions& options)
      : conversation_(conversation),
        options_(options),
        v4_(options.version == Version::kV4),
        dsml_(v4_ ? kDsmlV4 : kDsmlV41) {}

  std::vector<Piece> write(bool open_answer);

 private:
  using Turns = std::vector<const Turn*>;
  enum class Last : uint8_t { kOther, kUser, kTool };

  bool has_rules() const {
    return offers_tools(conversation_) ||
           conversation_.response_format != ResponseFormat::kText;
  }
  Turns turns_in_order() const;
  void sort_results(Turns& turns) const;
  void write_head();
  void write_first_system(const Turns& turns);
  void write_effort();
  void write_rules();
  void write_tool_prompt();
  void write_schemas(const std::vector<Tool>& tools);
  void write_user(const Turn& turn);
  void write_result(const Turn& turn);
  void write_late_system(const Turn& turn);
  void write_new_tools(const Turn& turn);
  void write_assistant(const Turn& turn, bool first);
  void write_calls(const std::vector<ToolCall>& calls);
  void write_call(const ToolCall& call);
  void write_parameter(std::string_view name, const Json& value);
  void write_answer_header();
  void write_content(const Turn& turn);
  void write_marked(std::string_view text);
  // "<", the DSML mark, `name`, `rest`; "</" for a closing tag.
  void write_tag(std::string_view open, std::string_view name, std::string_view rest);

  const Conversation& conversation_;
  const DeepSeekOptions& options_;
  const bool v4_;
  const Dsml dsml_;
  PieceList out_;
  Last last_ = Last::kOther;    // what kind of turn stands at the end
  bool user_has_text_ = false;  // of kUser: whether a next one begins a new paragraph
};

// The turns after the head. V4 lifts system turns out and drops empty notices; V4.1 drops system
// turns of nothing and keeps the first of several reminders in a row.
Writer::Turns Writer::turns_in_order() const {
  Turns turns;
  for (const Turn& turn : conversation_.turns) {
    if (turn.role == Role::kSystem && (v4_ || !turn.has_content)) continue;
    if (turn.role == Role::kNotice && v4_ && is_empty(turn)) continue;
    const bool repeats = !v4_ && turn.role == Role::kReminder && !turns.empty() &&
                         turns.back()->role == Role::kReminder;
    if (!repeats) turns.push_back(&turn);
  }
  sort_results(turns);
  return turns;
}

// Results of one round of calls: V4 by id, V4.1 in the order of the calls.
void Writer::sort_results(Turns& turns) const {
  const std::vector<ToolCall>* calls = nullptr;
  const auto place = [&](const Turn* turn) {
    for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
      if ((*calls)[i].id == turn->call_id) return i;
    }
    return size_t{0};
  };
  for (auto it = turns.begin(); it != turns.end();) {
    if ((*it)->role != Role::kTool) {
      if ((*it)->role == Role::kAssistant) calls = &(*it)->calls;
      ++it;
      continue;
    }
    const auto end = std::find_if(it, turns.end(), [](const Turn* turn) {
      return turn->role != Role::kTool;
    });
    std::stable_sort(it, end, [&](const Turn* a, const Turn* b) {
      return v4_ ? a->call_id < b->call_id : place(a) < place(b);
    });
    it = end;
  }
}

void Writer::write_tag(std::string_view open, std::string_view name, std::string_view rest) {
  out_.plain(open);
  out_.control(deepseek::kDsml);
  out_.plain(name);
  out_.plain(rest);
}

void Writer::write_schemas(const std::vector<Tool>& tools) {
  std::string text;
  for (const Tool& tool : tools) {
    if (tool.deferred && !v4_ && &tools == &conversation_.tools) continue;
    if (!text.empty()) text += '\n';
    text += "{\"name\": ";
    text += write_json(Json(tool.name));
    text += ", \"description\": ";
    text += write_json(Json(tool.description));
    text += ", \"parameters\": ";
    append_spaced_json(text, tool.parameters, dsml_.numbers);
    text += '}';
  }
  out_.plain(text);
}

void Writer::write_tool_prompt() {
  std::string_view text = deepseek::kToolPrompt;
  for (size_t mark = text.find('\x01'); mark != text.npos; mark = text.find('\x01')) {
    out_.plain(text.substr(0, mark));
    switch (text[mark + 1]) {
      case 'D': out_.control(deepseek::kDsml); break;
      case 'T': out_.control(deepseek::kThink); break;
      case '/': out_.control(deepseek::kThinkEnd); break;
      case 'C': out_.plain(dsml_.block); break;
      case 'I': out_.plain(dsml_.call); break;
      default: out_.plain(dsml_.parameter); break;
    }
    text.remove_prefix(mark + 2);
  }
  out_.plain(text);
  write_schemas(conversation_.tools);
  out_.plain(deepseek::kToolPromptTail);
}

// What the model is told of tools and of the answer's form, each after a blank line.
void Writer::write_rules() {
  if (offers_tools(conversation_)) {
    out_.plain("\n\n");
    write_tool_prompt();
  }
  if (conversation_.response_format == ResponseFormat::kText) return;
  out_.plain("\n\n");
  const bool any_object = conversation_.response_format == ResponseFormat::kJsonObject;
  if (any_object && v4_) return out_.plain(deepseek::kJsonObjectV4);
  out_.plain(deepseek::kSchema);
  std::string schema;
  append_spaced_json(schema,
                     any_object ? Json{{"type", "json_object"}} : conversation_.response_schema,
                     dsml_.numbers);
  out_.plain(schema);
}

void Writer::write_effort() {
  if (!conversation_.thinking) return;
  const Effort effort = conversation_.effort;
  if (!v4_) {
    out_.plain(fmt::format("Reasoning Effort: {}{}",
                           options_.effort_numbers[static_cast<size_t>(effort)],
                           deepseek::kEffortTailV41));
  } else if (effort == Effort::kMax) {
    out_.plain(deepseek::kEffortMaxV4);
  } else if (effort != Effort::kLow) {
    out_.plain(deepseek::kEffortHighV4);
  }
}

// V4: all system turns, then the rules.
void Writer::write_head() {
  write_effort();
  bool joined = false;
  for (const Turn& turn : conversation_.turns) {
    if (turn.role != Role::kSystem || is_empty(turn)) continue;
    if (std::exchange(joined, true)) out_.plain("\n\n");
    write_content(turn);
  }
  write_rules();
}

// V4.1: a system turn that begins the dialogue, or none, with effort and rules.
void Writer::write_first_system(const Turns& turns) {
  const bool has_turn = !turns.empty() && is_system(turns.front()->role);
  if (!has_turn && !conversation_.thinking && !has_rules()) return;
  out_.control(deepseek::kSystem);
  write_effort();
  if (has_turn) write_content(*turns.front());
  write_rules();
  if (has_turn) write_new_tools(*turns.front());
}

void Writer::write_new_tools(const Turn& turn) {
  if (turn.new_tools.empty()) return;
  out_.plain("\n\n");
  out_.plain(deepseek::kNewTools);
  write_schemas(turn.new_tools);
}

// Text with its images where they stand.
void Writer::write_content(const Turn& turn) {
  const std::string_view text = turn.content;
  size_t begin = 0;
  for (const size_t at : turn.images) {
    const size_t end = std::clamp(at, begin, text.size());
    out_.plain(text.substr(begin, end - begin));
    if (v4_) {
      out_.plain(deepseek::kUnsupportedImage);
    } else {
      out_.control(deepseek::kImage);
    }
    begin = end;
  }
  const std::string_view rest = text.substr(begin);
  if (turn.role == Role::kAssistant) {
    write_marked(rest);
  } else {
    out_.plain(rest);
  }
}

// What an assistant wrote: plain, but for grounding marks when these are trusted.
void Writer::write_marked(std::string_view text) {
  size_t begin = 0;
  for (size_t i = text.find('<'); options_.trust_grounding && i != text.npos;
       i = text.find('<', i + 1)) {
    for (const std::string_view mark : deepseek::kGrounding) {
      if (!text.substr(i).starts_with(mark)) continue;
      out_.plain(text.substr(begin, i - begin));
      out_.control(mark);
      begin = i + mark.size();
    }
  }
  out_.plain(text.substr(begin));
}

// Users in a row speak as one, in paragraphs; V4 leaves empty ones out.
void Writer::write_user(const Turn& turn) {
  const bool leaves_out = v4_ && is_empty(turn);
  if (last_ == Last::kUser) {
    if (leaves_out) return;
    if (user_has_text_) out_.plain("\n\n");
  } else if (last_ == Last::kTool) {
    out_.plain("\n\n");
  } else {
    out_.control(deepseek::kUser);
  }
  user_has_text_ = !leaves_out;
  last_ = Last::kUser;
  if (turn.role != Role::kNotice) return write_content(turn);
  out_.plain("<system-reminder>\n");
  write_content(turn);
  out_.plain("\n</system-reminder>");
}

void Writer::write_result(const Turn& turn) {
  if (last_ == Last::kTool || (last_ == Last::kUser && !v4_)) {
    out_.plain("\n\n");
  } else {
    out_.control(deepseek::kUser);
  }
  last_ = Last::kTool;
  out_.plain("<tool_result>");
  write_content(turn);
  out_.plain("</tool_result>");
}

void Writer::write_late_system(const Turn& turn) {
  out_.control(deepseek::kSystem);
  write_content(turn);
  write_new_tools(turn);
  last_ = Last::kOther;
}

void Writer::write_parameter(std::string_view name, const Json& value) {
  write_tag("<", dsml_.parameter, " name=\"");
  out_.plain(name);
  if (value.is_string()) {
    out_.plain("\" string=\"true\">");
    out_.plain(value.get_ref<const std::string&>());
  } else {
    std::string text;
    append_spaced_json(text, value, dsml_.numbers);
    out_.plain("\" string=\"false\">");
    out_.plain(text);
  }
  write_tag("</", dsml_.parameter, ">");
}

// Arguments that are no JSON object are shown as they are.
void Writer::write_call(const ToolCall& call) {
  write_tag("<", dsml_.call, " name=\"");
  out_.plain(call.name);
  out_.plain("\">\n");
  JsonLimits limits;
  limits.last_key_wins = true;
  const auto parsed = parse_json(call.arguments, limits);
  const Json arguments =
      parsed.ok() && parsed->is_object() ? *parsed : Json{{"arguments", call.arguments}};
  bool first = true;
  for (const auto& [name, value] : arguments.items()) {
    if (!std::exchange(first, false)) out_.plain("\n");
    write_parameter(name, value);
  }
  // V4 has a line for each parameter and none without.
  if (!v4_ || !first) out_.plain("\n");
  write_tag("</", dsml_.call, ">");
}

void Writer::write_calls(const std::vector<ToolCall>& calls) {
  std::vector<const ToolCall*> order;
  for (const ToolCall& call : calls) order.push_back(&call);
  if (v4_) {
    std::stable_sort(order.begin(), order.end(),
                     [](const ToolCall* a, const ToolCall* b) { return a->id < b->id; });
  }
  write_tag("\n\n<", dsml_.block, ">\n");
  for (const ToolCall* call : order) {
    write_call(*call);
    out_.plain("\n");
  }
  write_tag("</", dsml_.block, ">");
}

// Reasoning of the past is kept where tools are offered and dropped else; that of a turn to be
// continued always counts. V4.1 has no form for it in a turn that begins the dialogue.
void Writer::write_assistant(const Turn& turn, bool first) {
  out_.control(deepseek::kAssistant);
  last_ = Last::kOther;
  const bool may_think = conversation_.thinking && !(first && !v4_);
  const bool reasons = may_think && (turn.unfinished || offers_tools(conversation_));
  if (reasons) {
    out_.control(deepseek::kThink);
    write_marked(turn.reasoning);
    if (turn.unfinished && is_empty(turn)) return;
  }
  out_.control(deepseek::kThinkEnd);
  write_content(turn);
  if (!turn.calls.empty()) write_calls(turn.calls);
  if (!turn.unfinished) out_.control(deepseek::kEnd);
}

void Writer::write_answer_header() {
  out_.control(deepseek::kAssistant);
  out_.control(conversation_.thinking ? deepseek::kThink : deepseek::kThinkEnd);
  if (conversation_.tool_choice == ToolChoice::kRequired && offers_tools(conversation_) &&
      !conversation_.thinking) {
    write_tag("\n\n<", dsml_.block, ">\n");
  }
}

std::vector<Piece> Writer::write(bool open_answer) {
  out_.control(deepseek::kBegin);
  const Turns turns = turns_in_order();
  if (v4_) {
    write_head();
  } else {
    write_first_system(turns);
  }
  for (const Turn* turn : turns) {
    const bool first = turn == turns.front();
    switch (turn->role) {
      case Role::kSystem:
      case Role::kDeveloper:
      case Role::kNotice:
        if (v4_) {
          write_user(*turn);
        } else if (!first) {
          write_late_system(*turn);
        }
        break;
      case Role::kUser: write_user(*turn); break;
      case Role::kTool: write_result(*turn); break;
      case Role::kReminder:
        out_.control(deepseek::kReminder);
        write_content(*turn);
        last_ = Last::kOther;
        break;
      case Role::kAssistant: write_assistant(*turn, first && !has_rules()); break;
    }
  }
  const bool unfinished = !turns.empty() && turns.back()->unfinished;
  if (open_answer && !unfinished) write_answer_header();
  return std::move(out_).take();
}

}  // namespace

DeepSeekEncoder::DeepSeekEncoder(std::shared_ptr<const Tokenizer> tokenizer,
                                 DeepSeekOptions options)
    : ChatEncoder(std::move(tokenizer)), options_(options) {}

StatusOr<std::shared_ptr<const DeepSeekEncoder>> DeepSeekEncoder::make(
    std::shared_ptr<const Tokenizer> tokenizer, DeepSeekOptions options) {
  std::vector<Piece> needed;
  for (const std::string_view token :
       {deepseek::kBegin, deepseek::kEnd, deepseek::kUser, deepseek::kAssistant,
        deepseek::kReminder, deepseek::kThink, deepseek::kThinkEnd, deepseek::kDsml}) {
    needed.push_back({true, std::string(token)});
  }
  if (options.version == Version::kV41) {
    needed.push_back({true, std::string(deepseek::kSystem)});
    needed.push_back({true, std::string(deepseek::kImage)});
  }
  if (options.trust_grounding) {
    for (const std::string_view mark : deepseek::kGrounding) {
      needed.push_back({true, std::string(mark)});
    }
  }
  const auto ids = encode_pieces(needed, *tokenizer);
  if (!ids.ok()) return ids.status();
  return std::shared_ptr<const DeepSeekEncoder>(
      new DeepSeekEncoder(std::move(tokenizer), options));
}

StatusOr<std::vector<Piece>> DeepSeekEncoder::pieces(const Conversation& conversation,
                                                     bool open_answer) const {
  return Writer(conversation, options_).write(open_answer);
}

}  // namespace lineshaft::recipe
