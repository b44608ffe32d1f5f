#include "recipe/parser/dsml_parser.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "recipe/encoding/deepseek_text.h"

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;
constexpr size_t kNowhere = std::string::npos;

}  // namespace

// Text, a control token, text: each may be empty.
struct DsmlParser::Marker {
  std::string_view before;
  std::string_view control;
  std::string_view after;
};

struct DsmlParser::Match {
  size_t at = kNowhere;   // where it begins
  size_t bytes = 0;       // 0: it may become one with what is still to come
  size_t marker = 0;      // which one
};

namespace {

// Before the blocks of V3.2, V4 and V4.1, whose names differ.
constexpr std::string_view kDsml = deepseek::kDsml;
// Line breaks before a marker that belong to it.
constexpr size_t kBreaksMax = 64;
// Bytes that are worked off at once, so that dropping them from the front stays cheap.
constexpr size_t kSliceMax = 4096;

}  // namespace

DsmlParser::DsmlParser(ParserOptions options)
    : options_(std::move(options)), stops_(options_.stops) {
  using Start = ParserOptions::Start;
  begin_content();
  trims_ = options_.start != Start::kContentGoesOn && options_.start != Start::kReasoningGoesOn;
  if (options_.start == Start::kReasoning || options_.start == Start::kReasoningGoesOn) {
    state_ = State::kReasoning;
  } else if (options_.start == Start::kCalls) {
    state_ = State::kCalls;
  }
}

void DsmlParser::begin_content() {
  state_ = options_.json ? State::kBeforeJson : State::kContent;
  trims_ = true;
}

void DsmlParser::drop(size_t bytes) {
  held_.erase(0, bytes);
  origins_.erase(0, bytes);
}

DsmlParser::Match DsmlParser::match(const Marker& marker, size_t at) const {
  size_t here = at;
  const std::pair<std::string_view, char> parts[] = {
      {marker.before, static_cast<char>(Origin::kPlain)},
      {marker.control, static_cast<char>(Origin::kControl)},
      {marker.after, static_cast<char>(Origin::kPlain)}};
  for (const auto& [text, origin] : parts) {
    for (const char byte : text) {
      if (here == held_.size()) return {at, 0, 0};
      const char is = origins_[here];
      if (held_[here] != byte || (is != origin && is != static_cast<char>(Origin::kUnknown))) {
        return {};
      }
      ++here;
    }
  }
  return {at, here - at, 0};
}

// Line breaks, then the marker.
DsmlParser::Match DsmlParser::match_after_breaks(const Marker& marker, size_t at) const {
  const size_t begin = std::min(held_.find_first_not_of('\n', at), held_.size());
  const Match found = match(marker, begin);
  if (found.at == kNowhere || begin - at > kBreaksMax) return {};
  return {at, found.bytes == 0 ? 0 : begin + found.bytes - at, 0};
}

// Of the run of line breaks at `at`, which begins no marker, the last that can't begin one either.
size_t DsmlParser::last_skipped(size_t at) const {
  const size_t end = std::min(held_.find_first_not_of('\n', at), held_.size());
  return end - at > kBreaksMax ? end - kBreaksMax - 1 : end - 1;
}

DsmlParser::Match DsmlParser::find(const Marker* markers, size_t count) const {
  for (size_t at = 0; at < held_.size(); ++at) {
    for (size_t i = 0; i < count; ++i) {
      Match found = match(markers[i], at);
      found.marker = i;
      if (found.at != kNowhere) return found;
    }
  }
  return {};
}

void DsmlParser::emit_content(std::string_view text, std::vector<AnswerEvent>& out) {
  const auto result = stops_.push(text);
  emit(Kind::kContent, result.text, out);
  if (!result.matched) return;
  stop_ = result.stop;
  state_ = State::kDone;
}

// The first bytes of what is held are text of the state.
void DsmlParser::emit_text(size_t bytes, std::vector<AnswerEvent>& out) {
  std::string_view text(held_.data(), bytes);
  if (trims_) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    if (!text.empty()) trims_ = false;
  }
  if (state_ == State::kReasoning) {
    emit(Kind::kReasoning, text, out);
  } else {
    emit_content(text, out);
  }
  drop(bytes);
}

// The text ends where a block of calls begins, or with the answer.
void DsmlParser::end_text(std::vector<AnswerEvent>& out) {
  emit(Kind::kContent, stops_.finish(), out);
}

// Each step works off what is held in its state. False: more is needed, or there is nothing left.
bool DsmlParser::step_text(std::vector<AnswerEvent>& out) {
  constexpr Marker kThinkEnd = {"", deepseek::kThinkEnd, ""};
  constexpr Marker kBlock = {"<", kDsml, ""};
  for (size_t at = 0; at < held_.size(); ++at) {
    const char byte = held_[at];
    if (byte != '<' && byte != '\n') continue;
    const Match think = state_ == State::kReasoning ? match_after_breaks(kThinkEnd, at)
                                                    : match(kThinkEnd, at);
    const Match block = options_.tools ? match_after_breaks(kBlock, at) : Match{};
    if (think.at == kNowhere && block.at == kNowhere) {
      if (byte == '\n') at = last_skipped(at);
      continue;
    }
    emit_text(at, out);
    if (state_ == State::kDone) return false;
    if (block.bytes > 0) {
      drop(block.bytes);
      end_text(out);
      state_ = State::kCalls;
      return true;
    }
    if (think.bytes == 0) return false;
    drop(think.bytes);
    if (state_ == State::kReasoning) begin_content();
    return true;
  }
  emit_text(held_.size(), out);
  return false;
}

// What stands before the value is no part of the answer.
bool DsmlParser::step_before_json() {
  constexpr Marker kMarkers[] = {
      {"```json", "", ""}, {"```", "", ""}, {"{", "", ""}, {"[", "", ""}};
  const Match found = find(kMarkers, std::size(kMarkers));
  if (found.at == kNowhere) {
    drop(held_.size());
    return false;
  }
  drop(found.at);
  if (found.bytes == 0) return false;
  // A fence is dropped with the line breaks after it.
  const bool fence = found.marker < 2;
  if (fence) drop(found.bytes);
  trims_ = fence;
  state_ = State::kJson;
  return true;
}

bool DsmlParser::step_json(std::vector<AnswerEvent>& out) {
  for (size_t at = 0; at < held_.size(); ++at) {
    if (held_[at] != '`' && held_[at] != '\n') continue;
    const Match fence = match_after_breaks({"```", "", ""}, at);
    if (fence.at == kNowhere) {
      if (held_[at] == '\n') at = last_skipped(at);
      continue;
    }
    emit_text(at, out);
    if (fence.bytes == 0 || state_ == State::kDone) return false;
    end_text(out);
    state_ = State::kDone;
    return false;
  }
  emit_text(held_.size(), out);
  return false;
}

bool DsmlParser::step_calls() {
  constexpr Marker kMarkers[] = {{"invoke name=\"", "", ""},
                                 {"</", kDsml, "tool_calls>"},
                                 {"</", kDsml, " calls>"},
                                 {"</", kDsml, "function_calls>"}};
  const Match found = find(kMarkers, std::size(kMarkers));
  drop(found.at == kNowhere ? held_.size() : found.at + found.bytes);
  if (found.bytes == 0) return false;
  state_ = found.marker == 0 ? State::kName : State::kDone;
  part_.clear();
  return true;
}

bool DsmlParser::step_name(std::vector<AnswerEvent>& out) {
  const size_t end = held_.find('"');
  part_.append(held_, 0, end);
  if (end == kNowhere) {
    drop(held_.size());
    return false;
  }
  drop(end + 1);
  emit(Kind::kCall, part_, out);
  ++calls_;
  any_parameter_ = false;
  state_ = State::kArguments;
  return true;
}

bool DsmlParser::step_arguments(std::vector<AnswerEvent>& out) {
  constexpr Marker kMarkers[] = {{"parameter name=\"", "", ""}, {"</", kDsml, ""}};
  const Match found = find(kMarkers, std::size(kMarkers));
  drop(found.at == kNowhere ? held_.size() : found.at + found.bytes);
  if (found.bytes == 0) return false;
  if (found.marker == 1) {
    emit(Kind::kArguments, any_parameter_ ? "}" : "{}", out);
    state_ = State::kCalls;
    return true;
  }
  emit(Kind::kArguments, any_parameter_ ? ", " : "{", out);
  any_parameter_ = true;
  part_.clear();
  state_ = State::kKey;
  return true;
}

bool DsmlParser::step_key(std::vector<AnswerEvent>& out) {
  constexpr Marker kEnd = {"\" string=\"", "", ""};
  const Match found = find(&kEnd, 1);
  const size_t end = std::min(found.at, held_.size());
  part_.append(held_, 0, end);
  drop(end + found.bytes);
  if (found.bytes == 0) return false;
  emit(Kind::kArguments, write_json(Json(part_)), out);
  emit(Kind::kArguments, ": ", out);
  state_ = State::kIsString;
  return true;
}

// A value that is not said to be a string is JSON.
bool DsmlParser::step_is_string(std::vector<AnswerEvent>& out) {
  const Match yes = match({"true\">", "", ""}, 0);
  const Match no = match({"false\">", "", ""}, 0);
  const Match& found = yes.at != kNowhere ? yes : no;
  if (found.at != kNowhere && found.bytes == 0) return false;
  drop(found.bytes);
  part_.clear();
  state_ = yes.at != kNowhere ? State::kValue : State::kRawValue;
  if (state_ == State::kValue) emit(Kind::kArguments, "\"", out);
  return true;
}

void DsmlParser::emit_string_part(std::string_view text, std::vector<AnswerEvent>& out) {
  const std::string quoted = write_json(Json(std::string(text)));
  emit(Kind::kArguments, std::string_view(quoted).substr(1, quoted.size() - 2), out);
}

// What is no JSON is a string after all, so that the arguments always are JSON.
void DsmlParser::end_raw_value(std::vector<AnswerEvent>& out) {
  JsonLimits limits;
  limits.last_key_wins = true;
  const bool valid = parse_json(part_, limits).ok();
  emit(Kind::kArguments, valid ? part_ : write_json(Json(part_)), out);
}

bool DsmlParser::step_value(std::vector<AnswerEvent>& out) {
  constexpr Marker kEnd = {"</", kDsml, ""};
  const Match found = find(&kEnd, 1);
  const std::string_view text(held_.data(), std::min(found.at, held_.size()));
  if (state_ == State::kValue) {
    emit_string_part(text, out);
  } else {
    part_ += text;
  }
  drop(text.size() + found.bytes);
  if (found.bytes == 0) return false;
  if (state_ == State::kValue) {
    emit(Kind::kArguments, "\"", out);
  } else {
    end_raw_value(out);
  }
  state_ = State::kArguments;
  return true;
}

bool DsmlParser::step(std::vector<AnswerEvent>& out) {
  switch (state_) {
    case State::kReasoning:
    case State::kContent: return step_text(out);
    case State::kBeforeJson: return step_before_json();
    case State::kJson: return step_json(out);
    case State::kCalls: return step_calls();
    case State::kName: return step_name(out);
    case State::kArguments: return step_arguments(out);
    case State::kKey: return step_key(out);
    case State::kIsString: return step_is_string(out);
    case State::kValue:
    case State::kRawValue: return step_value(out);
    case State::kDone: return false;
  }
  return false;
}

void DsmlParser::push(std::string_view text, Origin origin, std::vector<AnswerEvent>& out) {
  if (done()) return;
  while (!text.empty()) {
    size_t bytes = std::min(text.size(), kSliceMax);
    // Not within a code point.
    while (bytes < text.size() && bytes > 1 && (text[bytes] & 0xc0) == 0x80) --bytes;
    held_ += text.substr(0, bytes);
    origins_.append(bytes, static_cast<char>(origin));
    text.remove_prefix(bytes);
    while (!held_.empty() && step(out)) {
    }
  }
}

void DsmlParser::finish(std::vector<AnswerEvent>& out) {
  if (state_ == State::kReasoning || state_ == State::kContent || state_ == State::kJson) {
    emit_text(held_.size(), out);
    end_text(out);
  } else if (state_ == State::kValue) {
    emit_string_part(held_, out);
  } else if (state_ == State::kRawValue) {
    emit(Kind::kArguments, part_, out);
  }
  state_ = State::kDone;
  held_.clear();
  origins_.clear();
}

}  // namespace lineshaft::recipe
