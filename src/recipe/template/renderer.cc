#include "recipe/template/renderer.h"

#include <algorithm>

#include "recipe/template/operators.h"

namespace lineshaft::recipe::jinja {
namespace {

// Of expressions and statements inside each other, macros called from macros too. A level takes
// less than 2 KiB of stack.
constexpr int kDepthMax = 800;
// Of lists and dicts in each other: printing and dropping them recurses.
constexpr int kNestingMax = 100;

constexpr std::pair<std::string_view, Function> kFunctions[] = {
    {"range", Function::kRange},
    {"namespace", Function::kNamespace},
    {"dict", Function::kDict},
    {"raise_exception", Function::kRaiseException},
    {"strftime_now", Function::kStrftimeNow},
};

}  // namespace

Renderer::Renderer(const Ast& ast, const Variables& variables, int64_t unix_seconds, Budget budget)
    : ast_(ast), unix_seconds_(unix_seconds), budget_(budget), root_index_(ast.names.size(), -1) {
  for (size_t i = 0; i < ast.names.size(); ++i) {
    const auto given = std::find_if(variables.begin(), variables.end(),
                                    [&](const auto& v) { return v.first == ast.names[i]; });
    if (given != variables.end()) {
      assign(root_, static_cast<int>(i), given->second);
      continue;
    }
    for (const auto& [name, function] : kFunctions) {
      if (name == ast.names[i]) {
        assign(root_, static_cast<int>(i), {function, Origin::kScaffolding});
      }
    }
  }
}

StatusOr<OriginText> Renderer::run() {
  OriginText out;
  LS_RETURN_IF_ERROR(exec(ast_.body, out).status());
  return out;
}

Value Renderer::lookup(int name) {
  for (Scope* scope = scope_; scope != &root_; scope = scope->parent) {
    budget_.step(1 + static_cast<int64_t>(scope->variables.size() / 8));
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return value;
    }
  }
  const int at = root_index_[static_cast<size_t>(name)];
  if (at >= 0) return root_.variables[static_cast<size_t>(at)].second;
  return make_undefined(
      fmt::format("'{}' is undefined", ast_.names[static_cast<size_t>(name)]));
}

void Renderer::assign(Scope& scope, int name, Value value) {
  if (&scope == &root_) {
    int& at = root_index_[static_cast<size_t>(name)];
    if (at < 0) {
      at = static_cast<int>(root_.variables.size());
      root_.variables.emplace_back(name, std::move(value));
    } else {
      root_.variables[static_cast<size_t>(at)].second = std::move(value);
    }
    return;
  }
  budget_.step(static_cast<int64_t>(scope.variables.size() / 8));
  for (auto& [key, old] : scope.variables) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  scope.variables.emplace_back(name, std::move(value));
}

// Statements -------------------------------------------------------------------------------------

StatusOr<Renderer::Flow> Renderer::exec(const Block& block, OriginText& out) {
  for (const Stmt& stmt : block) {
    LS_ASSIGN_OR_RETURN(const Flow flow, exec(stmt, out));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

StatusOr<Renderer::Flow> Renderer::exec(const Stmt& stmt, OriginText& out) {
  StatusOr<Flow> flow = Flow::kNext;
  if (++depth_ > kDepthMax) {
    flow = invalid_argument("calls nest too deep");
  } else if (budget_.step() && !budget_.spent()) {
    flow = exec_one(stmt, out);
  }
  --depth_;
  if (flow.ok() && budget_.spent()) {
    flow = make_status(StatusCode::kResourceExhausted,
                       "the template takes more work or memory than is allowed");
  }
  if (!flow.ok() && !failed_) {
    failed_ = true;
    failed_at_ = stmt.offset;
  }
  return flow;
}

StatusOr<Renderer::Flow> Renderer::exec_one(const Stmt& stmt, OriginText& out) {
  switch (stmt.kind) {
    case StmtKind::kText: print(out, stmt.literal); break;
    case StmtKind::kOutput: {
      LS_ASSIGN_OR_RETURN(const Value value, eval(*stmt.expr));
      print(out, value);
      break;
    }
    case StmtKind::kIf: return exec_if(stmt, out);
    case StmtKind::kFor: return exec_for(stmt, out);
    case StmtKind::kSet: LS_RETURN_IF_ERROR(exec_set(stmt)); break;
    case StmtKind::kWith: return exec_with(stmt, out);
    case StmtKind::kMacro:
      assign(*scope_, stmt.macro->name, {stmt.macro.get(), Origin::kScaffolding});
      break;
    case StmtKind::kFilterBlock: {
      LS_ASSIGN_OR_RETURN(const Value value, capture(stmt));
      print(out, value);
      break;
    }
    case StmtKind::kScope: {
      const Entered entered(*this, scope_);
      return exec(stmt.body, out);
    }
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

void Renderer::print(OriginText& out, const Value& value) { append_str(out, value, budget_); }

StatusOr<Renderer::Flow> Renderer::exec_if(const Stmt& stmt, OriginText& out) {
  for (const Branch& branch : stmt.branches) {
    if (branch.condition != nullptr) {
      LS_ASSIGN_OR_RETURN(const Value condition, eval(*branch.condition));
      if (!truthy(condition)) continue;
    }
    return exec(branch.body, out);
  }
  return Flow::kNext;
}

// The items of a loop that its condition lets through.
StatusOr<ListPtr> Renderer::chosen_items(const Stmt& stmt) {
  LS_ASSIGN_OR_RETURN(const Value sequence, eval(*stmt.expr));
  LS_ASSIGN_OR_RETURN(ListPtr items, iterate(sequence, budget_));
  if (stmt.condition == nullptr) return items;
  Entered entered(*this, scope_);
  std::vector<Value> chosen;
  for (const Value& item : items->items) {
    entered.scope.variables.clear();
    LS_RETURN_IF_ERROR(unpack(stmt.targets, item, entered.scope));
    LS_ASSIGN_OR_RETURN(const Value wanted, eval(*stmt.condition));
    if (truthy(wanted) && budget_.make(sizeof(Value))) chosen.push_back(item);
  }
  return make_list(std::move(chosen)).as<ListPtr>();
}

StatusOr<Renderer::Flow> Renderer::exec_for(const Stmt& stmt, OriginText& out) {
  LS_ASSIGN_OR_RETURN(const ListPtr items, chosen_items(stmt));
  if (items->items.empty()) return exec(stmt.other, out);
  Entered entered(*this, scope_);
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (!budget_.make(sizeof(LoopData) + 32)) break;
    entered.scope.variables.clear();
    auto loop = std::make_shared<const LoopData>(LoopData{items, static_cast<int64_t>(i)});
    assign(entered.scope, ast_.loop, {LoopPtr(std::move(loop)), Origin::kScaffolding});
    LS_RETURN_IF_ERROR(unpack(stmt.targets, items->items[i], entered.scope));
    LS_ASSIGN_OR_RETURN(const Flow flow, exec(stmt.body, out));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

StatusOr<Renderer::Flow> Renderer::exec_with(const Stmt& stmt, OriginText& out) {
  std::vector<Value> values;
  for (const ExprPtr& expr : stmt.values) {
    LS_ASSIGN_OR_RETURN(Value value, eval(*expr));
    values.push_back(std::move(value));
  }
  Entered entered(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    assign(entered.scope, stmt.targets[i].name, std::move(values[i]));
  }
  return exec(stmt.body, out);
}

Status Renderer::exec_set(const Stmt& stmt) {
  LS_ASSIGN_OR_RETURN(Value value, stmt.captures ? capture(stmt) : eval(*stmt.expr));
  return unpack(stmt.targets, value, *scope_);
}

Status Renderer::put(const Target& target, Value value, Scope& scope) {
  if (target.member.empty()) {
    assign(scope, target.name, std::move(value));
    return ok_status();
  }
  const Value object = lookup(target.name);
  if (object.is<Undefined>()) return undefined_error(object);
  if (!object.is<Namespace*>()) {
    return invalid_argument("cannot assign attribute on non-namespace object");
  }
  auto& members = object.as<Namespace*>()->members;
  budget_.step(static_cast<int64_t>(members.size() / 8));
  for (auto& [name, old] : members) {
    if (name != target.member) continue;
    old = std::move(value);
    return ok_status();
  }
  budget_.make(static_cast<int64_t>(sizeof(Value) + 64));
  members.emplace_back(target.member, std::move(value));
  return ok_status();
}

Status Renderer::unpack(const std::vector<Target>& targets, const Value& value, Scope& scope) {
  if (targets.size() == 1) return put(targets[0], value, scope);
  LS_ASSIGN_OR_RETURN(const ListPtr items, iterate(value, budget_));
  if (items->items.size() != targets.size()) {
    return invalid_argument("{} values to unpack (expected {})", items->items.size(),
                            targets.size());
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    LS_RETURN_IF_ERROR(put(targets[i], items->items[i], scope));
  }
  return ok_status();
}

// The output of a statement's body, after its filters.
StatusOr<Value> Renderer::capture(const Stmt& stmt) {
  OriginText text;
  {
    const Entered entered(*this, scope_);
    LS_RETURN_IF_ERROR(exec(stmt.body, text).status());
  }
  captured_ = make_text(std::move(text));
  return eval(*stmt.expr);
}

// Expressions ------------------------------------------------------------------------------------

StatusOr<Value> Renderer::eval(const Expr& expr) {
  StatusOr<Value> value = Value();
  if (++depth_ > kDepthMax) {
    value = invalid_argument("calls nest too deep");
  } else if (budget_.step()) {
    value = eval_one(expr);
  }
  --depth_;
  if (value.ok() && budget_.spent()) {
    value = make_status(StatusCode::kResourceExhausted,
                        "the template takes more work or memory than is allowed");
  }
  if (value.ok() && depth_of(*value) > kNestingMax) {
    value = invalid_argument("lists nest too deep");
  }
  if (!value.ok() && !failed_) {
    failed_ = true;
    failed_at_ = expr.offset;
  }
  return value;
}

StatusOr<Value> Renderer::eval_one(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kLiteral: return expr.literal;
    case ExprKind::kName: return lookup(expr.name);
    case ExprKind::kCaptured: return captured_;
    case ExprKind::kList:
    case ExprKind::kTuple: return eval_list(expr);
    case ExprKind::kDict: return eval_dict(expr);
    case ExprKind::kMember: {
      LS_ASSIGN_OR_RETURN(const Value object, eval(*expr.children[0]));
      return get_member(object, expr.text, budget_);
    }
    case ExprKind::kItem:
    case ExprKind::kBinary: return eval_pair(expr);
    case ExprKind::kSlice: return eval_slice(expr);
    case ExprKind::kCall: return eval_call(expr);
    case ExprKind::kFilter:
    case ExprKind::kTest: return eval_filter(expr);
    case ExprKind::kNot:
    case ExprKind::kNegative:
    case ExprKind::kPositive: return eval_unary(expr);
    case ExprKind::kCompare: return eval_compare(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr:
    case ExprKind::kConditional: return eval_logic(expr);
  }
  return Value();
}

StatusOr<Value> Renderer::eval_list(const Expr& expr) {
  std::vector<Value> items;
  budget_.make(static_cast<int64_t>(expr.children.size() * sizeof(Value)) + 96);
  for (const ExprPtr& child : expr.children) {
    LS_ASSIGN_OR_RETURN(Value item, eval(*child));
    items.push_back(std::move(item));
  }
  return make_list(std::move(items), expr.kind == ExprKind::kTuple);
}

StatusOr<Value> Renderer::eval_dict(const Expr& expr) {
  std::vector<std::pair<TextPtr, Value>> pairs;
  budget_.make(static_cast<int64_t>(expr.children.size() * sizeof(Value)) + 128);
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    LS_ASSIGN_OR_RETURN(const Value key, eval(*expr.children[i]));
    if (!key.is_text()) {
      return invalid_argument("keys of a dict are text, not {}", type_name(key));
    }
    LS_ASSIGN_OR_RETURN(Value value, eval(*expr.children[i + 1]));
    pairs.emplace_back(key.as<TextPtr>(), std::move(value));
  }
  return make_dict(std::move(pairs));
}

StatusOr<Value> Renderer::eval_slice(const Expr& expr) {
  LS_ASSIGN_OR_RETURN(const Value object, eval(*expr.children[0]));
  std::vector<Value> bounds(3, make_none());
  for (size_t i = 0; i < 3; ++i) {
    if (expr.children[i + 1] == nullptr) continue;
    LS_ASSIGN_OR_RETURN(bounds[i], eval(*expr.children[i + 1]));
  }
  return slice(object, &bounds[0], &bounds[1], &bounds[2], budget_);
}

StatusOr<Value> Renderer::eval_pair(const Expr& expr) {
  LS_ASSIGN_OR_RETURN(const Value left, eval(*expr.children[0]));
  LS_ASSIGN_OR_RETURN(const Value right, eval(*expr.children[1]));
  if (expr.kind == ExprKind::kItem) return get_item(left, right, budget_);
  return binary(expr.ops[0], left, right, budget_);
}

StatusOr<Value> Renderer::eval_unary(const Expr& expr) {
  LS_ASSIGN_OR_RETURN(const Value value, eval(*expr.children[0]));
  if (expr.kind == ExprKind::kNot) return make_bool(!truthy(value));
  if (expr.kind == ExprKind::kNegative) return negative(value);
  LS_ASSIGN_OR_RETURN(const Value inverse, negative(value));
  return negative(inverse);
}

StatusOr<Value> Renderer::eval_compare(const Expr& expr) {
  LS_ASSIGN_OR_RETURN(Value left, eval(*expr.children[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    LS_ASSIGN_OR_RETURN(Value right, eval(*expr.children[i + 1]));
    LS_ASSIGN_OR_RETURN(const bool holds, compare(expr.ops[i], left, right, budget_));
    if (!holds) return make_bool(false);
    left = std::move(right);
  }
  return make_bool(true);
}

StatusOr<Value> Renderer::eval_logic(const Expr& expr) {
  if (expr.kind == ExprKind::kConditional) {
    LS_ASSIGN_OR_RETURN(const Value condition, eval(*expr.children[1]));
    if (truthy(condition)) return eval(*expr.children[0]);
    if (expr.children[2] != nullptr) return eval(*expr.children[2]);
    return make_undefined("the inline if-expression evaluated to false and no else section was "
                          "defined.");
  }
  LS_ASSIGN_OR_RETURN(Value left, eval(*expr.children[0]));
  if (truthy(left) == (expr.kind == ExprKind::kOr)) return left;
  return eval(*expr.children[1]);
}

StatusOr<Args> Renderer::eval_args(const Expr& expr) {
  Args args;
  for (size_t i = 1; i < expr.children.size(); ++i) {
    LS_ASSIGN_OR_RETURN(Value value, eval(*expr.children[i]));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, child] : expr.named) {
    LS_ASSIGN_OR_RETURN(Value value, eval(*child));
    args.named.emplace_back(name, std::move(value));
  }
  return args;
}

StatusOr<Value> Renderer::eval_filter(const Expr& expr) {
  LS_ASSIGN_OR_RETURN(const Value input, eval(*expr.children[0]));
  LS_ASSIGN_OR_RETURN(const Args args, eval_args(expr));
  if (expr.kind == ExprKind::kFilter) return expr.filter->call(input, args, budget_);
  LS_ASSIGN_OR_RETURN(const bool holds, expr.test->call(input, args, budget_));
  return make_bool(holds);
}

}  // namespace lineshaft::recipe::jinja
