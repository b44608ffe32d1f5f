// JsonMachine: reads a JSON text byte by byte and refuses the first byte that no valid document
// can have there.
//
// A document's place is a stack of frames, each with the residual formula of its object or array;
// frames and formulas are interned, so a place is a few numbers that can be kept, compared and gone
// back to. What a formula says of the next member or item is asked of the formula itself
// (children, residuals), so no keyword has code of its own here. Must not know tokens.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "decoding/constraint/expr.h"
#include "decoding/constraint/number_lexer.h"
#include "decoding/constraint/string_lexer.h"

namespace lineshaft::decoding {

// What a schema was compiled to.
struct SchemaProgram {
  ExprPool pool;
  std::vector<std::shared_ptr<const Nfa>> patterns;  // by index of Expr::kPattern
  ExprId root = ExprPool::kTrue;
};

// The formula that only `value` fulfils (numbers by value, objects whatever their order).
ExprId const_formula(ExprPool& pool, const Json& value);

struct JsonLayout {
  int whitespace_max = 8;  // bytes between two tokens of JSON
  int depth_max = 64;      // arrays and objects in one another, as parse_json has it
};

class JsonMachine {
 public:
  enum class Mode : uint8_t {
    kValue,   // a value begins
    kFirst,   // behind { or [
    kKeyStart,
    kKey,
    kColon,
    kString,
    kNumber,
    kLiteral,
    kAfter,   // behind a member or an item
    kDone,
  };
  struct State {
    int32_t frame = 0;
    Mode mode = Mode::kValue;
    int32_t lex = 0;     // of strings, keys, numbers and literals
    int32_t count = 0;   // code points of a counted string; bytes of a number or of whitespace
    uint32_t start = 0;  // kKey: where the key's text begins
    bool operator==(const State&) const = default;
  };

  JsonMachine(std::shared_ptr<const SchemaProgram> program, const JsonLayout& layout);

  State start() const;
  // False when no document fulfils the schema.
  bool satisfiable() { return viable_value(root_value_); }
  // Reads text.back(), the byte at place text.size() - 1 of the document; false (with `state` of no
  // further use) when no valid document goes on so.
  bool step(State& state, std::string_view text);
  // True when the document may end here.
  bool can_end(const State& state);

  // During a trial (of the tokens that may come) new keys are not noted, which only matters to a
  // token that holds one key twice.
  void set_trial(bool trial) { trial_ = trial; }

  // For masks: in a string where any text without quotes, escapes and controls is possible.
  bool free_text(const State& state);
  // How many more code points it may have; kNoEnd: any number.
  int64_t free_text_room(const State& state);
  // Whether the count of a string's code points has a say.
  bool count_matters(const State& state) const { return strings_.counted(state.lex); }

  // What a mask depends on besides the state: the contents of the frames from the innermost on.
  int32_t parent(int32_t frame) const { return frames_[static_cast<size_t>(frame)].parent; }
  int32_t content(int32_t frame) const { return frames_[static_cast<size_t>(frame)].content; }
  // True when what follows depends on the text of the item that is being read.
  bool reads_text(int32_t frame) const { return content_of(frame).item_start != 0; }
  int depth(int32_t frame) const { return frames_[static_cast<size_t>(frame)].depth; }
  // The least depth that step() has looked at since the last reset.
  void reset_lowest() { lowest_ = 1 << 30; }
  int lowest() const { return lowest_; }
  // True when what is possible from here may depend on keys that the open objects already have,
  // beyond their contents: a mask must then not be kept. `in_one_token` tells whether a token can
  // hold that key with both its quotes.
  bool depends_on_seen(const State& state, std::string_view text,
                       const std::function<bool(const std::string&)>& in_one_token) const;

  size_t memory_bytes() const;

 private:
  enum class Kind : uint8_t { kRoot, kObject, kArray };
  struct Content {
    Kind kind = Kind::kRoot;
    int32_t container = -1;
    int32_t child = -1;        // of the value that is being read
    uint32_t item_start = 0;   // arrays with unique items: where the item's text begins
    auto operator<=>(const Content&) const = default;
  };
  struct Frame {
    int32_t parent = -1;
    int32_t content = 0;
    int32_t seen = 0;          // keys without a formula of their own
    int depth = 0;
  };
  struct Seen {
    int32_t previous = 0;
    std::string key;
  };
  // An object or array in the midst: residual formulas, the first of which must hold.
  struct Container {
    JsonType type = JsonType::kObject;
    std::vector<ExprId> outputs;
    std::vector<ExprId> leaves;
    std::vector<ExprId> keys;        // objects: formulas for keys that the leaves ask for
    int32_t key_start = kUnset;      // objects: string state of a key
    int32_t item = kUnset;           // arrays: child
    int32_t close_outcome = kUnset;
    int8_t viable = -1;
    bool unique = false;
  };
  // A member's or item's value: the formulas to find out and what their truths lead to.
  struct Child {
    int32_t container = -1;          // -1: the root
    int32_t value = 0;               // spec
    int32_t key_text = -1;           // fixed text of the key; -1: none
    std::vector<bool> relevant;      // by leaf of the container
    std::vector<ExprId> tracked;     // formulas behind the first, by place in the outputs
    std::map<ExprId, bool> known;    // true or false already when the first holds
  };
  struct Value {
    std::vector<ExprId> outputs;
    std::array<int32_t, kJsonTypes> begin;  // lexer state, container or outcome; kUnset, kReject
    int8_t viable = -1;
  };

  static constexpr int32_t kReject = -1;
  static constexpr int32_t kUnset = -4;

  int32_t value_spec(std::vector<ExprId> outputs);
  int32_t begin(int32_t value, JsonType type);
  bool viable_value(int32_t value);
  bool satisfiable_formula(ExprId id);
  int32_t container(JsonType type, std::vector<ExprId> outputs);
  bool viable(int32_t container);
  bool viable_object(int32_t container);
  bool viable_array(int32_t container);
  bool required_possible(int32_t container);
  bool alternatives_possible(const std::vector<ExprId>& must,
                             const std::vector<ExprId>& alternatives);
  int32_t close_outcome(int32_t container);
  int32_t key_start(int32_t container);
  int32_t object_child(int32_t container, int32_t outcome, int32_t text);
  int32_t item_child(int32_t container);
  int32_t make_child(Child child);
  ExprId child_goal(const Child& child);
  void find_tracked(Child& child, ExprId goal);
  int32_t next_container(int32_t child, int32_t outcome, ExprId item_value);
  ExprId residual(ExprId formula, const Child& child, const std::vector<bool>& truths,
                  ExprId item_value);
  ExprId key_goal(int32_t container);
  std::vector<ExprId> conjuncts(int32_t container) const;
  int64_t most_left(int32_t container) const;
  bool fixed_key(const Expr& leaf, const Child& child) const;

  bool start_value(State& state, uint8_t byte, uint32_t at);
  bool step_string(State& state, std::string_view text);
  bool end_key(State& state, std::string_view text);
  bool step_number(State& state, std::string_view text);
  bool step_literal(State& state, std::string_view text);
  bool step_between(State& state, std::string_view text);
  bool open(State& state, JsonType type, int32_t value);
  bool close(State& state, std::string_view text);
  bool end_value(State& state, int32_t outcome, std::string_view item_text);
  bool is_seen(int32_t list, std::string_view key) const;
  int32_t frame(const Frame& frame);
  int32_t content(const Content& content);
  const Content& content_of(int32_t frame_id) const {
    return contents_[static_cast<size_t>(frames_[static_cast<size_t>(frame_id)].content)];
  }

  ExprPool pool_;  // grows with residuals
  JsonLayout layout_;
  Outcomes outcomes_;
  StringLexer strings_;
  NumberLexer numbers_;
  int32_t root_value_ = 0;
  int viable_depth_ = 0;
  bool splitting_ = false;
  bool trial_ = false;
  int lowest_ = 0;

  std::vector<Value> values_;
  std::map<std::vector<ExprId>, int32_t> value_index_;
  std::vector<Container> containers_;
  std::map<std::pair<JsonType, std::vector<ExprId>>, int32_t> container_index_;
  std::vector<Child> children_;
  std::map<std::array<int32_t, 3>, int32_t> object_children_;
  std::map<std::array<int32_t, 3>, int32_t> next_;
  std::unordered_map<ExprId, int8_t> satisfiable_;
  std::vector<Content> contents_;
  std::map<Content, int32_t> content_index_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, std::vector<int32_t>> frame_index_;
  std::vector<Seen> seen_;
  size_t memory_bytes_ = 0;
};

}  // namespace lineshaft::decoding
