// The parsed form of a template. Plain data, immutable after parsing; made by the parser only,
// which bounds how deep it nests.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "recipe/template/value.h"

namespace lineshaft::recipe::jinja {

struct FilterEntry;  // builtins.h
struct TestEntry;

enum class ExprKind : uint8_t {
  kLiteral,      // literal
  kName,         // name
  kCaptured,     // the output of a block that a filter or `set` takes
  kList,         // children
  kTuple,
  kDict,         // children: key, value, key, value, …
  kMember,       // children[0] . text
  kItem,         // children[0] [ children[1] ]
  kSlice,        // children[0] [ children[1] : children[2] : children[3] ], null where left out
  kCall,         // children[0] ( children[1…], named )
  kFilter,       // children[0] | filter ( children[1…], named )
  kTest,         // children[0] is test ( children[1…], named )
  kNot,
  kNegative,
  kPositive,
  kBinary,       // children[0] ops[0] children[1]
  kCompare,      // children[0] ops[0] children[1] ops[1] children[2] …
  kAnd,
  kOr,
  kConditional,  // children[0] if children[1] else children[2], which may be null
};

enum class Op : uint8_t {
  kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower, kConcat,
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn,
};

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  uint32_t offset = 0;  // in the source
  int depth = 1;        // of expressions inside each other
  Value literal;
  int name = -1;        // index into Ast::names
  std::string text;
  const FilterEntry* filter = nullptr;
  const TestEntry* test = nullptr;
  std::vector<Op> ops;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

struct Stmt;
using Block = std::vector<Stmt>;

// What `set` and `for` put a value into: a name, or a member of the namespace of that name.
struct Target {
  int name = -1;
  std::string member;
  uint32_t offset = 0;
};

enum class StmtKind : uint8_t {
  kText,         // literal
  kOutput,       // expr
  kIf,           // branches
  kFor,          // targets in expr if condition: body else other
  kSet,          // targets = expr; with a body: expr of its captured output
  kWith,         // targets[i] = values[i]: body
  kMacro,        // macro
  kFilterBlock,  // expr of the captured output of body
  kScope,        // body alone: Hugging Face's `generation`
  kBreak,
  kContinue,
};

struct Branch {
  ExprPtr condition;  // null for else
  Block body;
};

struct Parameter {
  int name = -1;
  std::string text;
  ExprPtr value;  // when the caller gives none; may be null
};

struct Macro {
  std::string text;
  int name = -1;
  std::vector<Parameter> parameters;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  uint32_t offset = 0;
  Value literal;
  ExprPtr expr;
  ExprPtr condition;
  bool captures = false;  // kSet of a body
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  std::vector<Branch> branches;
  Block body;
  Block other;
  std::unique_ptr<const Macro> macro;
};

struct Ast {
  std::vector<std::string> names;  // of variables
  int loop = -1;                   // index of the name `loop`
  Block body;
};

}  // namespace lineshaft::recipe::jinja
