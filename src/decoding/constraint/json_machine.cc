#include "decoding/constraint/json_machine.h"

#include <algorithm>

namespace lineshaft::decoding {
namespace {

constexpr int32_t kNumberBytesMax = 400;
constexpr std::string_view kLiterals[] = {"null", "true", "false"};
constexpr JsonType kLiteralTypes[] = {JsonType::kNull, JsonType::kTrue, JsonType::kFalse};

bool is_space(uint8_t byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// The text of a JSON string whose inside is `raw`.
std::string decode_string(std::string_view raw) {
  if (raw.find('\\') == std::string_view::npos) return std::string(raw);
  const auto parsed = parse_json('"' + std::string(raw) + '"');
  return parsed.ok() && parsed->is_string() ? parsed->get<std::string>() : std::string(raw);
}

}  // namespace

JsonMachine::JsonMachine(std::shared_ptr<const SchemaProgram> program, const JsonLayout& layout)
    : pool_(program->pool), layout_(layout), strings_(pool_, outcomes_),
      numbers_(pool_, outcomes_) {
  for (const auto& nfa : program->patterns) strings_.add_pattern(nfa);
  seen_.emplace_back();
  root_value_ = value_spec({program->root});
  Child root;
  root.value = root_value_;
  const int32_t child = make_child(std::move(root));
  frame({-1, content(Content{Kind::kRoot, -1, child, 0}), 0, 0});
}

JsonMachine::State JsonMachine::start() const { return State{}; }

size_t JsonMachine::memory_bytes() const {
  return memory_bytes_ + pool_.memory_bytes() + strings_.memory_bytes() + numbers_.memory_bytes();
}

int32_t JsonMachine::content(const Content& content) {
  const auto [found, is_new] =
      content_index_.emplace(content, static_cast<int32_t>(contents_.size()));
  if (is_new) {
    contents_.push_back(content);
    memory_bytes_ += 2 * sizeof(Content) + 64;
  }
  return found->second;
}

int32_t JsonMachine::frame(const Frame& frame) {
  const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(frame.parent)) << 32 |
                       static_cast<uint32_t>(frame.content);
  auto& same = frame_index_[key];
  for (const int32_t candidate : same) {
    if (frames_[static_cast<size_t>(candidate)].seen == frame.seen) return candidate;
  }
  const auto id = static_cast<int32_t>(frames_.size());
  frames_.push_back(frame);
  same.push_back(id);
  memory_bytes_ += sizeof(Frame) + 64;
  return id;
}

bool JsonMachine::is_seen(int32_t list, std::string_view key) const {
  for (; list != 0; list = seen_[static_cast<size_t>(list)].previous) {
    if (seen_[static_cast<size_t>(list)].key == key) return true;
  }
  return false;
}

bool JsonMachine::depends_on_seen(
    const State& state, std::string_view text,
    const std::function<bool(const std::string&)>& in_one_token) const {
  for (int32_t at = state.frame; at >= 0; at = parent(at)) {
    int32_t list = frames_[static_cast<size_t>(at)].seen;
    if (list == 0) continue;
    const bool in_key = state.mode == Mode::kKey && at == state.frame;
    const std::string_view begun = in_key ? text.substr(state.start) : std::string_view();
    if (begun.find('\\') != std::string_view::npos) return true;
    for (; list != 0; list = seen_[static_cast<size_t>(list)].previous) {
      const std::string& key = seen_[static_cast<size_t>(list)].key;
      if ((in_key && key.starts_with(begun)) || in_one_token(key)) return true;
    }
  }
  return false;
}

bool JsonMachine::step(State& state, std::string_view text) {
  switch (state.mode) {
    case Mode::kString:
    case Mode::kKey:
      return step_string(state, text);
    case Mode::kNumber:
      return step_number(state, text);
    case Mode::kLiteral:
      return step_literal(state, text);
    case Mode::kDone:
      return false;
    default:
      return step_between(state, text);
  }
}

bool JsonMachine::can_end(const State& state) {
  if (state.mode == Mode::kDone) return true;
  return state.mode == Mode::kNumber && depth(state.frame) == 0 &&
         numbers_.outcome(state.lex) >= 0;
}

bool JsonMachine::step_between(State& state, std::string_view text) {
  const auto byte = static_cast<uint8_t>(text.back());
  if (is_space(byte)) return ++state.count <= layout_.whitespace_max;
  const Content here = content_of(state.frame);
  switch (state.mode) {
    case Mode::kValue:
      return start_value(state, byte, static_cast<uint32_t>(text.size() - 1));
    case Mode::kColon:
      if (byte != ':') return false;
      state.mode = Mode::kValue;
      state.count = 0;
      return true;
    case Mode::kFirst:
    case Mode::kAfter: {
      const char end = here.kind == Kind::kObject ? '}' : ']';
      if (byte == static_cast<uint8_t>(end)) return close(state, text);
      if (state.mode == Mode::kFirst) break;
      if (byte != ',') return false;
      state.count = 0;
      if (here.kind == Kind::kObject) {
        state.mode = Mode::kKeyStart;
        return key_start(here.container) >= 0;
      }
      const int32_t child = item_child(here.container);
      state.mode = Mode::kValue;
      Frame next = frames_[static_cast<size_t>(state.frame)];
      next.content = content(Content{Kind::kArray, here.container, child, 0});
      state.frame = frame(next);
      return viable_value(children_[static_cast<size_t>(child)].value);
    }
    default:
      break;
  }
  if (here.kind == Kind::kArray) {  // the first item
    Frame next = frames_[static_cast<size_t>(state.frame)];
    next.content = content(Content{Kind::kArray, here.container, item_child(here.container), 0});
    state.frame = frame(next);
    return start_value(state, byte, static_cast<uint32_t>(text.size() - 1));
  }
  if (byte != '"') return false;
  state.lex = key_start(here.container);
  state.mode = Mode::kKey;
  state.count = 0;
  state.start = static_cast<uint32_t>(text.size());
  return state.lex >= 0;
}

bool JsonMachine::start_value(State& state, uint8_t byte, uint32_t at) {
  const Content here = content_of(state.frame);
  if (here.kind == Kind::kArray && containers_[static_cast<size_t>(here.container)].unique) {
    Frame next = frames_[static_cast<size_t>(state.frame)];
    next.content = content(Content{here.kind, here.container, here.child, at});
    state.frame = frame(next);
  }
  const int32_t value = children_[static_cast<size_t>(here.child)].value;
  state.count = 0;
  if (byte == '"') {
    state.mode = Mode::kString;
    state.lex = begin(value, JsonType::kString);
    return state.lex >= 0;
  }
  if (byte == '{') return open(state, JsonType::kObject, value);
  if (byte == '[') return open(state, JsonType::kArray, value);
  if (byte == '-' || (byte >= '0' && byte <= '9')) {
    state.mode = Mode::kNumber;
    const int32_t first = begin(value, JsonType::kNumber);
    state.lex = first < 0 ? first : numbers_.step(first, byte);
    return state.lex >= 0;
  }
  for (int i = 0; i < 3; ++i) {
    if (byte != static_cast<uint8_t>(kLiterals[i][0])) continue;
    state.mode = Mode::kLiteral;
    state.lex = i << 8 | 1;
    return begin(value, kLiteralTypes[i]) >= 0;
  }
  return false;
}

bool JsonMachine::open(State& state, JsonType type, int32_t value) {
  const Frame& outer = frames_[static_cast<size_t>(state.frame)];
  const int32_t first = begin(value, type);
  if (first < 0 || outer.depth >= layout_.depth_max) return false;
  const Kind kind = type == JsonType::kObject ? Kind::kObject : Kind::kArray;
  const int depth = outer.depth + 1;
  state.frame = frame({state.frame, content(Content{kind, first, -1, 0}), 0, depth});
  state.mode = Mode::kFirst;
  state.count = 0;
  return true;
}

bool JsonMachine::close(State& state, std::string_view text) {
  const int32_t outcome = close_outcome(content_of(state.frame).container);
  lowest_ = std::min(lowest_, depth(state.frame) - 1);
  if (outcome < 0) return false;
  state.frame = parent(state.frame);
  return end_value(state, outcome, text);
}

// `item_text` ends with the last byte of the value.
bool JsonMachine::end_value(State& state, int32_t outcome, std::string_view item_text) {
  lowest_ = std::min(lowest_, depth(state.frame));
  const Content here = content_of(state.frame);
  state.count = 0;
  state.lex = 0;
  if (here.kind == Kind::kRoot) {
    state.mode = Mode::kDone;
    return true;
  }
  ExprId item_value = -1;
  if (here.kind == Kind::kArray && containers_[static_cast<size_t>(here.container)].unique) {
    const auto value = parse_json(item_text.substr(here.item_start));
    if (!value.ok()) return false;
    item_value = const_formula(pool_, *value);
  }
  const int32_t next = next_container(here.child, outcome, item_value);
  if (next < 0) return false;
  Frame changed = frames_[static_cast<size_t>(state.frame)];
  changed.content = content(Content{here.kind, next, -1, 0});
  state.frame = frame(changed);
  state.mode = Mode::kAfter;
  return true;
}

bool JsonMachine::step_string(State& state, std::string_view text) {
  const int32_t next = strings_.step(state.lex, static_cast<uint8_t>(text.back()));
  if (next >= 0) {
    state.lex = next & ~StringLexer::kCounts;
    if (!strings_.counted(state.lex)) return true;
    if ((next & StringLexer::kCounts) == 0) {
      // An escape is one code point more when it ends, for which there must be room.
      return text.back() != '\\' || strings_.count_possible(state.lex, state.count + 1);
    }
    ++state.count;
    return strings_.count_possible(state.lex, state.count);
  }
  if (next != StringLexer::kClose) return false;
  if (state.mode == Mode::kKey) return end_key(state, text);
  const int32_t outcome = strings_.outcome(state.lex, state.count);
  return outcome >= 0 && end_value(state, outcome, text);
}

bool JsonMachine::end_key(State& state, std::string_view text) {
  const int32_t outcome = strings_.outcome(state.lex, state.count);
  if (outcome < 0) return false;
  const Content here = content_of(state.frame);
  Frame next = frames_[static_cast<size_t>(state.frame)];
  const int32_t fixed = strings_.text_index(state.lex);
  const std::string_view raw = text.substr(state.start, text.size() - 1 - state.start);
  if (next.seen != 0 || (fixed < 0 && !trial_)) {
    std::string key = decode_string(raw);
    if (is_seen(next.seen, key)) return false;
    if (fixed < 0 && !trial_) {
      memory_bytes_ += sizeof(Seen) + key.size();
      seen_.push_back({next.seen, std::move(key)});
      next.seen = static_cast<int32_t>(seen_.size()) - 1;
    }
  }
  const int32_t child = object_child(here.container, outcome, fixed);
  if (!viable_value(children_[static_cast<size_t>(child)].value)) return false;
  next.content = content(Content{here.kind, here.container, child, 0});
  state.frame = frame(next);
  state.mode = Mode::kColon;
  state.lex = 0;
  state.count = 0;
  state.start = 0;
  return true;
}

bool JsonMachine::step_number(State& state, std::string_view text) {
  const int32_t next = numbers_.step(state.lex, static_cast<uint8_t>(text.back()));
  if (next >= 0) {
    state.lex = next;
    return ++state.count < kNumberBytesMax;
  }
  const int32_t outcome = numbers_.outcome(state.lex);
  if (outcome < 0 || depth(state.frame) == 0) return false;
  // The number ended before this byte, which belongs to what comes behind it.
  return end_value(state, outcome, text.substr(0, text.size() - 1)) && step_between(state, text);
}

bool JsonMachine::step_literal(State& state, std::string_view text) {
  const auto which = static_cast<size_t>(state.lex >> 8);
  const auto at = static_cast<size_t>(state.lex & 0xff);
  if (kLiterals[which][at] != text.back()) return false;
  ++state.lex;
  if (at + 1 < kLiterals[which].size()) return true;
  const int32_t child = content_of(state.frame).child;
  const int32_t outcome = begin(children_[static_cast<size_t>(child)].value, kLiteralTypes[which]);
  return end_value(state, outcome, text);
}

bool JsonMachine::free_text(const State& state) {
  return (state.mode == Mode::kString || state.mode == Mode::kKey) && strings_.universal(state.lex);
}

int64_t JsonMachine::free_text_room(const State& state) {
  if (!strings_.counted(state.lex)) return kNoEnd;
  if (strings_.count_possible(state.lex, int64_t{1} << 40)) return kNoEnd;
  int64_t low = state.count;  // possible
  int64_t high = int64_t{1} << 40;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (strings_.count_possible(state.lex, middle) ? low : high) = middle;
  }
  return low - state.count;
}

}  // namespace lineshaft::decoding
