// Renderer: one rendering of a parsed template. Evaluates expressions and carries out statements;
// inside this folder only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "recipe/template/budget.h"
#include "recipe/template/builtins.h"
#include "recipe/template/template.h"

namespace lineshaft::recipe::jinja {

class Renderer {
 public:
  // Both outlive the renderer.
  Renderer(const Ast& ast, const Variables& variables, int64_t unix_seconds, Budget budget);

  StatusOr<OriginText> run();

  // Where the error that run() returned arose; a byte of the source.
  uint32_t failed_at() const { return failed_at_; }

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Variables that a loop, macro or block has for itself.
  struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<int, Value>> variables;
  };

  // Enters a scope for as long as it lives.
  class Entered {
   public:
    Entered(Renderer& renderer, Scope* parent) : renderer_(renderer), before_(renderer.scope_) {
      scope.parent = parent;
      renderer_.scope_ = &scope;
    }
    ~Entered() { renderer_.scope_ = before_; }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    Scope scope;

   private:
    Renderer& renderer_;
    Scope* before_;
  };

  Value lookup(int name);
  void assign(Scope& scope, int name, Value value);

  // Statements.
  StatusOr<Flow> exec(const Block& block, OriginText& out);
  StatusOr<Flow> exec(const Stmt& stmt, OriginText& out);
  StatusOr<Flow> exec_one(const Stmt& stmt, OriginText& out);
  StatusOr<Flow> exec_if(const Stmt& stmt, OriginText& out);
  StatusOr<Flow> exec_for(const Stmt& stmt, OriginText& out);
  StatusOr<Flow> exec_with(const Stmt& stmt, OriginText& out);
  Status exec_set(const Stmt& stmt);
  StatusOr<ListPtr> chosen_items(const Stmt& stmt);
  Status put(const Target& target, Value value, Scope& scope);
  Status unpack(const std::vector<Target>& targets, const Value& value, Scope& scope);
  StatusOr<Value> capture(const Stmt& stmt);
  void print(OriginText& out, const Value& value);

  // Expressions.
  StatusOr<Value> eval(const Expr& expr);
  StatusOr<Value> eval_one(const Expr& expr);
  StatusOr<Value> eval_list(const Expr& expr);
  StatusOr<Value> eval_dict(const Expr& expr);
  StatusOr<Value> eval_slice(const Expr& expr);
  StatusOr<Value> eval_compare(const Expr& expr);
  StatusOr<Value> eval_logic(const Expr& expr);
  StatusOr<Value> eval_pair(const Expr& expr);
  StatusOr<Value> eval_unary(const Expr& expr);
  StatusOr<Value> eval_filter(const Expr& expr);
  StatusOr<Value> eval_call(const Expr& expr);
  StatusOr<Args> eval_args(const Expr& expr);

  // Calls.
  StatusOr<Value> call(const Value& callee, const Args& args);
  StatusOr<Value> call_macro(const Macro& macro, const Args& args);
  StatusOr<Value> call_function(Function function, const Args& args);
  StatusOr<Value> make_namespace(const Args& args);
  StatusOr<Value> make_range(const Args& args);
  StatusOr<Value> format_time(const Args& args);

  const Ast& ast_;
  const int64_t unix_seconds_;
  Budget budget_;
  Scope root_;
  std::vector<int> root_index_;        // name -> index into root_.variables, -1: not set
  Scope* scope_ = &root_;
  std::deque<Namespace> namespaces_;
  Value captured_;                     // what kCaptured stands for
  int depth_ = 0;
  bool failed_ = false;
  uint32_t failed_at_ = 0;
};

}  // namespace lineshaft::recipe::jinja
