#include "recipe/parser/tagged_parser.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

constexpr size_t kNowhere = std::string::npos;
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kPythonTag = "<|python_tag|>";

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// Where the white space at the end of a text begins that belongs to a marker after it: of a long
// run the last part, so that holding it back stays cheap.
size_t words_end(std::string_view text) {
  constexpr size_t kSpaceMax = 64;
  const size_t begin = text.size() > kSpaceMax ? text.size() - kSpaceMax : 0;
  return begin + (text.substr(begin).find_last_not_of(kSpace) + 1);
}

struct Call {
  std::string name;
  std::string arguments;
};

// {"name": …, "arguments" or "parameters": an object, or a string that holds one}.
std::optional<Call> read_call(std::string_view text) {
  JsonLimits limits;
  limits.last_key_wins = true;
  const auto json = parse_json(text, limits);
  if (!json.ok() || !json->is_object() || !json->contains("name")) return std::nullopt;
  if (!(*json)["name"].is_string()) return std::nullopt;
  Call call{(*json)["name"].get<std::string>(), "{}"};
  for (const char* key : {"arguments", "parameters"}) {
    const auto found = json->find(key);
    if (found == json->end()) continue;
    const bool spelled = found->is_string();
    const auto inner = parse_json(spelled ? found->get<std::string>() : write_json(*found), limits);
    if (!inner.ok() || !inner->is_object()) return std::nullopt;
    call.arguments = spelled ? found->get<std::string>() : write_json(*found);
    return call;
  }
  return call;
}

// Bytes of the JSON value that begins here; npos when it does not end.
size_t value_end(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth <= 0) {
      return i + 1;
    }
  }
  return kNowhere;
}

// Calls in a row, parted by white space, commas or semicolons; empty when any is none.
std::vector<Call> read_calls(std::string_view text) {
  std::vector<Call> calls;
  text = trimmed(text);
  while (!text.empty()) {
    const size_t end = text.front() == '{' ? value_end(text) : kNowhere;
    if (end == kNowhere) return {};
    auto call = read_call(text.substr(0, end));
    if (!call) return {};
    calls.push_back(*std::move(call));
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n;,"), text.size()));
  }
  return calls;
}

// Whether an object that begins so may still be a call: its first key is one of a call.
bool may_be_call(std::string_view text) {
  text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  for (const std::string_view key : {"\"name\"", "\"type\"", "\"function\""}) {
    if (text.starts_with(key) || key.starts_with(text)) return true;
  }
  return false;
}

}  // namespace

TaggedParser::TaggedParser(TaggedOptions options)
    : options_(std::move(options)), stops_(options_.stops) {
  if (options_.begins_in_reasoning) state_ = State::kReasoning;
}

void TaggedParser::drop(size_t bytes) {
  held_.erase(0, bytes);
  origins_.erase(0, bytes);
  searched_ = 0;
}

TaggedParser::Found TaggedParser::matches(std::string_view marker, bool is_token,
                                          size_t at) const {
  for (size_t i = 0; i < marker.size(); ++i) {
    if (at + i == held_.size()) return {at, false};
    const auto origin = static_cast<Origin>(origins_[at + i]);
    if (held_[at + i] != marker[i] || (is_token && origin == Origin::kPlain)) return {};
  }
  return {at, true};
}

TaggedParser::Found TaggedParser::find(std::string_view marker, bool is_token,
                                       size_t from) const {
  for (size_t at = held_.find('<', from); at != kNowhere; at = held_.find('<', at + 1)) {
    const Found found = matches(marker, is_token, at);
    if (found.at != kNowhere) return found;
  }
  return {};
}

void TaggedParser::emit(Kind kind, std::string_view text, std::vector<AnswerEvent>& out) {
  if (trims_ && kind != Kind::kCall && kind != Kind::kArguments) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    if (!text.empty()) trims_ = false;
  }
  AnswerParser::emit(kind, text, out);
}

void TaggedParser::emit_content(std::string_view text, std::vector<AnswerEvent>& out) {
  const auto result = stops_.push(text);
  emit(Kind::kContent, result.text, out);
  if (!result.matched) return;
  stop_ = result.stop;
  state_ = State::kDone;
}

bool TaggedParser::emit_calls(std::string_view json, std::vector<AnswerEvent>& out) {
  const std::vector<Call> calls = read_calls(json);
  if (!calls.empty()) emit(Kind::kContent, stops_.finish(), out);
  for (const Call& call : calls) {
    emit(Kind::kCall, call.name, out);
    emit(Kind::kArguments, call.arguments, out);
    ++calls_;
  }
  return !calls.empty();
}

// White space, then reasoning, calls or words.
bool TaggedParser::step_begin(std::vector<AnswerEvent>&) {
  drop(std::min(held_.find_first_not_of(kSpace), held_.size()));
  if (held_.empty()) return false;
  if (options_.reasoning) {
    const Found think = matches(kThink, options_.think_is_token, 0);
    if (think.at != kNowhere && !think.whole) return false;
    if (think.whole) {
      drop(kThink.size());
      state_ = State::kReasoning;
      return true;
    }
  }
  if (options_.calls == TaggedOptions::Calls::kJson) {
    const Found tag = matches(kPythonTag, true, 0);
    if (tag.at != kNowhere && !tag.whole) return false;
    if (tag.whole || held_.front() == '{') {
      drop(tag.whole ? kPythonTag.size() : 0);
      state_ = State::kJson;
      return true;
    }
  }
  state_ = State::kContent;
  return true;
}

bool TaggedParser::step_reasoning(std::vector<AnswerEvent>& out) {
  const Found end = find(kThinkEnd, options_.think_is_token, 0);
  const size_t bytes = std::min(end.at, held_.size());
  // White space before the end belongs to it.
  const std::string_view text(held_.data(), bytes);
  const size_t kept = words_end(text);
  emit(Kind::kReasoning, text.substr(0, kept), out);
  if (!end.whole) {
    drop(kept);
    return false;
  }
  drop(bytes + kThinkEnd.size());
  trims_ = true;
  state_ = State::kBegin;
  return true;
}

bool TaggedParser::step_content(std::vector<AnswerEvent>& out) {
  if (options_.calls != TaggedOptions::Calls::kTagged) {
    const std::string text = held_;
    drop(text.size());
    emit_content(text, out);
    return false;
  }
  const Found call = find(kCall, options_.call_is_token, 0);
  const std::string text = held_.substr(0, call.at);
  // White space before a call belongs to it.
  const size_t kept = words_end(text);
  if (kept > 0) emit_content(std::string_view(text).substr(0, kept), out);
  if (state_ == State::kDone) return false;
  drop(kept);
  if (!call.whole) return false;
  tag_end_ = text.size() - kept + kCall.size();
  state_ = State::kCall;
  return true;
}

bool TaggedParser::step_call(std::vector<AnswerEvent>& out) {
  const Found end = find(kCallEnd, options_.call_is_token, std::max(searched_, tag_end_));
  if (!end.whole) {
    searched_ = std::min(end.at, held_.size());
    return false;
  }
  const size_t bytes = end.at + kCallEnd.size();
  const std::string all = held_.substr(0, bytes);
  drop(bytes);
  state_ = State::kContent;
  if (emit_calls(std::string_view(all).substr(tag_end_, end.at - tag_end_), out)) {
    trims_ = true;
  } else {
    emit_content(all, out);
  }
  return true;
}

// Held back to the end, unless it can't be a call.
bool TaggedParser::step_json() {
  if (held_.empty() || (held_.front() == '{' && may_be_call(held_))) return false;
  state_ = State::kContent;
  return true;
}

bool TaggedParser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kBegin: return step_begin(out);
    case State::kReasoning: return step_reasoning(out);
    case State::kContent: return step_content(out);
    case State::kCall: return step_call(out);
    case State::kJson: return step_json();
    case State::kDone: return false;
  }
  return false;
}

void TaggedParser::push(std::string_view text, Origin origin, std::vector<AnswerEvent>& out) {
  if (done()) return;
  held_ += text;
  origins_.append(text.size(), static_cast<char>(origin));
  while (!held_.empty() && step(out)) {
  }
}

void TaggedParser::finish(std::vector<AnswerEvent>& out) {
  if (state_ == State::kReasoning) {
    emit(Kind::kReasoning, held_, out);
  } else if (state_ == State::kCall || state_ == State::kJson) {
    // A call whose closing tag is cut off may be whole all the same.
    const std::string_view body =
        std::string_view(held_).substr(state_ == State::kCall ? tag_end_ : 0);
    if (!emit_calls(body, out)) emit_content(held_, out);
  } else if (state_ != State::kDone) {
    emit_content(held_, out);
  }
  if (state_ != State::kDone) emit(Kind::kContent, stops_.finish(), out);
  state_ = State::kDone;
  held_.clear();
  origins_.clear();
}

}  // namespace lineshaft::recipe
