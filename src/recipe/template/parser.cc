#include "recipe/template/parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "recipe/template/builtins.h"
#include "recipe/template/lexer.h"

namespace lineshaft::recipe::jinja {
namespace {

constexpr int kExprDepthMax = 100;
constexpr int kBlockDepthMax = 50;

std::unique_ptr<Expr> make(ExprKind kind, uint32_t offset) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->offset = offset;
  return expr;
}

struct OpName {
  std::string_view text;
  Op op;
};
constexpr std::array<OpName, 6> kCompareOps = {{{"==", Op::kEqual},
                                                {"!=", Op::kNotEqual},
                                                {"<", Op::kLess},
                                                {"<=", Op::kLessEqual},
                                                {">", Op::kGreater},
                                                {">=", Op::kGreaterEqual}}};
constexpr std::array<OpName, 2> kSums = {{{"+", Op::kAdd}, {"-", Op::kSubtract}}};
constexpr std::array<OpName, 1> kConcats = {{{"~", Op::kConcat}}};
constexpr std::array<OpName, 4> kProducts = {{{"*", Op::kMultiply},
                                              {"/", Op::kDivide},
                                              {"//", Op::kFloorDivide},
                                              {"%", Op::kModulo}}};
constexpr std::array<OpName, 1> kPowers = {{{"**", Op::kPower}}};

class Parser {
 public:
  Parser(std::string_view source, std::vector<Lexeme> tokens)
      : source_(source), tokens_(std::move(tokens)) {}

  StatusOr<Ast> run() {
    ast_.loop = name_id("loop");
    LS_ASSIGN_OR_RETURN(ast_.body, parse_block({}));
    return std::move(ast_);
  }

 private:
  // Tokens ------------------------------------------------------------------------------------
  const Lexeme& here() const { return tokens_[at_]; }
  const Lexeme& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void next() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool is_op(std::string_view op) const {
    return here().type == TokenType::kOperator && here().text == op;
  }
  bool is_name(std::string_view name) const {
    return here().type == TokenType::kName && here().text == name;
  }
  bool take_op(std::string_view op) {
    if (!is_op(op)) return false;
    next();
    return true;
  }
  bool take_name(std::string_view name) {
    if (!is_name(name)) return false;
    next();
    return true;
  }

  Status fail(const Lexeme& at, std::string_view what) const {
    return invalid_argument("{}: {}", place_of(source_, at.offset), what);
  }
  Status unsupported(const Lexeme& at, std::string_view what) const {
    return unimplemented("{}: {} is not supported", place_of(source_, at.offset), what);
  }

  std::string shown() const {
    switch (here().type) {
      case TokenType::kEnd: return "the end of the template";
      case TokenType::kVariableEnd: return "'}}'";
      case TokenType::kBlockEnd: return "'%}'";
      case TokenType::kString: return "a string";
      default: return fmt::format("'{}'", here().text);
    }
  }

  Status expect_op(std::string_view op) {
    if (take_op(op)) return ok_status();
    return fail(here(), fmt::format("expected '{}', found {}", op, shown()));
  }
  Status expect(TokenType type, std::string_view what) {
    if (here().type != type) {
      return fail(here(), fmt::format("expected {}, found {}", what, shown()));
    }
    next();
    return ok_status();
  }
  Status end_block_tag() { return expect(TokenType::kBlockEnd, "'%}'"); }

  StatusOr<std::string> expect_name() {
    if (here().type != TokenType::kName) {
      return fail(here(), fmt::format("expected a name, found {}", shown()));
    }
    std::string name = here().text;
    next();
    return name;
  }

  int name_id(const std::string& name) {
    const auto [it, is_new] = name_ids_.emplace(name, static_cast<int>(ast_.names.size()));
    if (is_new) ast_.names.push_back(name);
    return it->second;
  }

  // Statements --------------------------------------------------------------------------------

  // Up to a tag that begins with one of `ends`, whose name is then the current token; without
  // `ends` up to the end of the template.
  StatusOr<Block> parse_block(std::initializer_list<std::string_view> ends) {
    const Lexeme& begin = here();
    if (++block_depth_ > kBlockDepthMax) return fail(begin, "statements nest too deep");
    Block block;
    while (here().type != TokenType::kEnd) {
      if (here().type == TokenType::kData) {
        block.push_back(text_stmt());
      } else if (here().type == TokenType::kVariableBegin) {
        LS_ASSIGN_OR_RETURN(Stmt stmt, parse_output());
        block.push_back(std::move(stmt));
      } else {
        next();
        if (here().type == TokenType::kName &&
            std::find(ends.begin(), ends.end(), here().text) != ends.end()) {
          --block_depth_;
          return block;
        }
        LS_ASSIGN_OR_RETURN(Stmt stmt, parse_statement());
        block.push_back(std::move(stmt));
      }
    }
    if (ends.size() > 0) {
      return fail(begin, fmt::format("a block without its '{}'", *(ends.end() - 1)));
    }
    --block_depth_;
    return block;
  }

  Stmt stmt_of(StmtKind kind) const {
    Stmt stmt;
    stmt.kind = kind;
    stmt.offset = here().offset;
    return stmt;
  }

  Stmt text_stmt() {
    Stmt stmt = stmt_of(StmtKind::kText);
    stmt.literal = make_text(here().text, Origin::kScaffolding);
    next();
    return stmt;
  }

  StatusOr<Stmt> parse_output() {
    Stmt stmt = stmt_of(StmtKind::kOutput);
    next();
    LS_ASSIGN_OR_RETURN(stmt.expr, parse_tuple());
    LS_RETURN_IF_ERROR(expect(TokenType::kVariableEnd, "'}}'"));
    return stmt;
  }

  StatusOr<Stmt> parse_statement() {
    const Lexeme at = here();
    LS_ASSIGN_OR_RETURN(const std::string name, expect_name());
    if (name == "if") return parse_if(at);
    if (name == "for") return parse_for(at);
    if (name == "set") return parse_set(at);
    if (name == "macro") return parse_macro(at);
    if (name == "with") return parse_with(at);
    if (name == "filter") return parse_filter_block(at);
    if (name == "generation") return parse_generation(at);
    if (name == "break" || name == "continue") {
      if (loop_depth_ == 0) return fail(at, fmt::format("'{}' outside a loop", name));
      Stmt stmt = stmt_of(name == "break" ? StmtKind::kBreak : StmtKind::kContinue);
      LS_RETURN_IF_ERROR(end_block_tag());
      return stmt;
    }
    if (name == "call" || name == "block" || name == "extends" || name == "include" ||
        name == "import" || name == "from" || name == "do" || name == "autoescape") {
      return unsupported(at, fmt::format("the statement '{}'", name));
    }
    return fail(at, fmt::format("unknown statement '{}'", name));
  }

  StatusOr<Stmt> parse_if(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kIf);
    stmt.offset = at.offset;
    while (true) {
      Branch branch;
      LS_ASSIGN_OR_RETURN(branch.condition, parse_tuple());
      LS_RETURN_IF_ERROR(end_block_tag());
      LS_ASSIGN_OR_RETURN(branch.body, parse_block({"elif", "else", "endif"}));
      stmt.branches.push_back(std::move(branch));
      if (take_name("elif")) continue;
      if (take_name("else")) {
        LS_RETURN_IF_ERROR(end_block_tag());
        Branch other;
        LS_ASSIGN_OR_RETURN(other.body, parse_block({"endif"}));
        stmt.branches.push_back(std::move(other));
      }
      next();
      LS_RETURN_IF_ERROR(end_block_tag());
      return stmt;
    }
  }

  StatusOr<Target> parse_target(bool member_too) {
    Target target;
    target.offset = here().offset;
    LS_ASSIGN_OR_RETURN(const std::string name, expect_name());
    if (name == "true" || name == "false" || name == "none" || name == "True" ||
        name == "False" || name == "None" || name == "loop") {
      return fail(tokens_[at_ - 1], fmt::format("'{}' can't be assigned to", name));
    }
    target.name = name_id(name);
    if (member_too && take_op(".")) {
      LS_ASSIGN_OR_RETURN(target.member, expect_name());
    }
    return target;
  }

  StatusOr<std::vector<Target>> parse_targets(bool member_too) {
    const bool bracket = take_op("(");
    std::vector<Target> targets;
    do {
      if (!targets.empty() && (is_op(")") || is_op("=") || is_name("in"))) break;
      LS_ASSIGN_OR_RETURN(Target target, parse_target(member_too));
      targets.push_back(std::move(target));
    } while (take_op(","));
    if (bracket) LS_RETURN_IF_ERROR(expect_op(")"));
    return targets;
  }

  StatusOr<Stmt> parse_for(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kFor);
    stmt.offset = at.offset;
    LS_ASSIGN_OR_RETURN(stmt.targets, parse_targets(false));
    if (!take_name("in")) return fail(here(), fmt::format("expected 'in', found {}", shown()));
    LS_ASSIGN_OR_RETURN(stmt.expr, parse_tuple(false));
    if (take_name("if")) {
      LS_ASSIGN_OR_RETURN(stmt.condition, parse_expr());
    }
    if (is_name("recursive")) return unsupported(here(), "a recursive loop");
    LS_RETURN_IF_ERROR(end_block_tag());
    ++loop_depth_;
    LS_ASSIGN_OR_RETURN(stmt.body, parse_block({"else", "endfor"}));
    --loop_depth_;
    if (take_name("else")) {
      LS_RETURN_IF_ERROR(end_block_tag());
      LS_ASSIGN_OR_RETURN(stmt.other, parse_block({"endfor"}));
    }
    next();
    LS_RETURN_IF_ERROR(end_block_tag());
    return stmt;
  }

  // Body up to the end tag of this name, which is consumed.
  Status parse_body(std::string_view end, Block& body) {
    LS_RETURN_IF_ERROR(end_block_tag());
    LS_ASSIGN_OR_RETURN(body, parse_block({end}));
    next();
    return end_block_tag();
  }

  // The same for a body that runs apart from the loop around it.
  Status parse_closed_body(std::string_view end, Block& body) {
    const int loops = std::exchange(loop_depth_, 0);
    LS_RETURN_IF_ERROR(parse_body(end, body));
    loop_depth_ = loops;
    return ok_status();
  }

  StatusOr<Stmt> parse_set(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kSet);
    stmt.offset = at.offset;
    LS_ASSIGN_OR_RETURN(stmt.targets, parse_targets(true));
    if (take_op("=")) {
      LS_ASSIGN_OR_RETURN(stmt.expr, parse_tuple());
      LS_RETURN_IF_ERROR(end_block_tag());
      return stmt;
    }
    if (stmt.targets.size() != 1) return fail(here(), "a block can be set to one name only");
    stmt.captures = true;
    LS_ASSIGN_OR_RETURN(stmt.expr, parse_filters(make(ExprKind::kCaptured, at.offset)));
    LS_RETURN_IF_ERROR(parse_closed_body("endset", stmt.body));
    return stmt;
  }

  StatusOr<Stmt> parse_filter_block(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kFilterBlock);
    stmt.offset = at.offset;
    LS_ASSIGN_OR_RETURN(ExprPtr first, parse_filter(make(ExprKind::kCaptured, at.offset)));
    LS_ASSIGN_OR_RETURN(stmt.expr, parse_filters(std::move(first)));
    LS_RETURN_IF_ERROR(parse_closed_body("endfilter", stmt.body));
    return stmt;
  }

  StatusOr<Stmt> parse_generation(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kScope);
    stmt.offset = at.offset;
    LS_RETURN_IF_ERROR(parse_body("endgeneration", stmt.body));
    return stmt;
  }

  StatusOr<Stmt> parse_with(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kWith);
    stmt.offset = at.offset;
    while (here().type != TokenType::kBlockEnd) {
      if (!stmt.targets.empty()) LS_RETURN_IF_ERROR(expect_op(","));
      LS_ASSIGN_OR_RETURN(Target target, parse_target(false));
      stmt.targets.push_back(std::move(target));
      LS_RETURN_IF_ERROR(expect_op("="));
      LS_ASSIGN_OR_RETURN(ExprPtr value, parse_expr());
      stmt.values.push_back(std::move(value));
    }
    LS_RETURN_IF_ERROR(parse_body("endwith", stmt.body));
    return stmt;
  }

  StatusOr<Stmt> parse_macro(const Lexeme& at) {
    Stmt stmt = stmt_of(StmtKind::kMacro);
    stmt.offset = at.offset;
    auto macro = std::make_unique<Macro>();
    LS_ASSIGN_OR_RETURN(macro->text, expect_name());
    macro->name = name_id(macro->text);
    LS_RETURN_IF_ERROR(expect_op("("));
    while (!is_op(")")) {
      if (!macro->parameters.empty()) LS_RETURN_IF_ERROR(expect_op(","));
      Parameter parameter;
      LS_ASSIGN_OR_RETURN(const Target target, parse_target(false));
      parameter.name = target.name;
      parameter.text = ast_.names[static_cast<size_t>(target.name)];
      if (take_op("=")) {
        LS_ASSIGN_OR_RETURN(parameter.value, parse_expr());
      }
      macro->parameters.push_back(std::move(parameter));
    }
    next();
    LS_RETURN_IF_ERROR(parse_closed_body("endmacro", macro->body));
    stmt.macro = std::move(macro);
    return stmt;
  }

  // Expressions -------------------------------------------------------------------------------

  // The finished node, or an error when it nests too deep.
  StatusOr<ExprPtr> finish(std::unique_ptr<Expr> expr) const {
    for (const ExprPtr& child : expr->children) {
      if (child != nullptr) expr->depth = std::max(expr->depth, child->depth + 1);
    }
    for (const auto& [name, child] : expr->named) {
      expr->depth = std::max(expr->depth, child->depth + 1);
    }
    if (expr->depth > kExprDepthMax) {
      return invalid_argument("{}: expressions nest too deep", place_of(source_, expr->offset));
    }
    return ExprPtr(std::move(expr));
  }

  // One expression, or several with commas between them as a tuple.
  StatusOr<ExprPtr> parse_tuple(bool conditional = true) {
    const uint32_t offset = here().offset;
    LS_ASSIGN_OR_RETURN(ExprPtr first, conditional ? parse_expr() : parse_or());
    if (!is_op(",")) return first;
    auto tuple = make(ExprKind::kTuple, offset);
    tuple->children.push_back(std::move(first));
    while (take_op(",")) {
      const bool over = is_op(")") || here().type == TokenType::kVariableEnd ||
                        here().type == TokenType::kBlockEnd;
      if (over) break;
      LS_ASSIGN_OR_RETURN(ExprPtr item, conditional ? parse_expr() : parse_or());
      tuple->children.push_back(std::move(item));
    }
    return finish(std::move(tuple));
  }

  StatusOr<ExprPtr> parse_expr() {
    if (++expr_depth_ > kExprDepthMax) return fail(here(), "expressions nest too deep");
    LS_ASSIGN_OR_RETURN(ExprPtr value, parse_or());
    while (is_name("if")) {
      auto choice = make(ExprKind::kConditional, here().offset);
      next();
      LS_ASSIGN_OR_RETURN(ExprPtr condition, parse_or());
      ExprPtr other;
      if (take_name("else")) {
        LS_ASSIGN_OR_RETURN(other, parse_expr());
      }
      choice->children.push_back(std::move(value));
      choice->children.push_back(std::move(condition));
      choice->children.push_back(std::move(other));
      LS_ASSIGN_OR_RETURN(value, finish(std::move(choice)));
    }
    --expr_depth_;
    return value;
  }

  StatusOr<ExprPtr> pair(ExprKind kind, uint32_t offset, ExprPtr left, ExprPtr right) const {
    auto expr = make(kind, offset);
    expr->children.push_back(std::move(left));
    expr->children.push_back(std::move(right));
    return finish(std::move(expr));
  }

  StatusOr<ExprPtr> parse_or() {
    LS_ASSIGN_OR_RETURN(ExprPtr left, parse_and());
    while (is_name("or")) {
      const uint32_t offset = here().offset;
      next();
      LS_ASSIGN_OR_RETURN(ExprPtr right, parse_and());
      LS_ASSIGN_OR_RETURN(left, pair(ExprKind::kOr, offset, std::move(left), std::move(right)));
    }
    return left;
  }

  StatusOr<ExprPtr> parse_and() {
    LS_ASSIGN_OR_RETURN(ExprPtr left, parse_not());
    while (is_name("and")) {
      const uint32_t offset = here().offset;
      next();
      LS_ASSIGN_OR_RETURN(ExprPtr right, parse_not());
      LS_ASSIGN_OR_RETURN(left, pair(ExprKind::kAnd, offset, std::move(left), std::move(right)));
    }
    return left;
  }

  // A prefix operator before what `operand` parses.
  StatusOr<ExprPtr> prefix(ExprKind kind, StatusOr<ExprPtr> (Parser::*operand)()) {
    if (++expr_depth_ > kExprDepthMax) return fail(here(), "expressions nest too deep");
    auto expr = make(kind, here().offset);
    next();
    LS_ASSIGN_OR_RETURN(ExprPtr inner, (this->*operand)());
    expr->children.push_back(std::move(inner));
    --expr_depth_;
    return finish(std::move(expr));
  }

  StatusOr<ExprPtr> parse_not() {
    if (is_name("not")) return prefix(ExprKind::kNot, &Parser::parse_not);
    return parse_compare();
  }

  bool take_compare_op(Op& op) {
    if (take_name("in")) {
      op = Op::kIn;
      return true;
    }
    if (is_name("not") && ahead().type == TokenType::kName && ahead().text == "in") {
      next();
      next();
      op = Op::kNotIn;
      return true;
    }
    return take_binary_op(kCompareOps, op);
  }

  template <size_t N>
  bool take_binary_op(const std::array<OpName, N>& ops, Op& op) {
    for (const OpName& known : ops) {
      if (!take_op(known.text)) continue;
      op = known.op;
      return true;
    }
    return false;
  }

  StatusOr<ExprPtr> parse_compare() {
    const uint32_t offset = here().offset;
    LS_ASSIGN_OR_RETURN(ExprPtr first, parse_sum());
    auto compare = make(ExprKind::kCompare, offset);
    for (Op op{}; take_compare_op(op);) {
      compare->ops.push_back(op);
      if (first != nullptr) compare->children.push_back(std::move(first));
      LS_ASSIGN_OR_RETURN(ExprPtr operand, parse_sum());
      compare->children.push_back(std::move(operand));
    }
    if (compare->ops.empty()) return first;
    return finish(std::move(compare));
  }

  template <size_t N>
  StatusOr<ExprPtr> parse_binary(const std::array<OpName, N>& ops,
                                 StatusOr<ExprPtr> (Parser::*operand)()) {
    LS_ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
    while (true) {
      const uint32_t offset = here().offset;
      auto expr = make(ExprKind::kBinary, offset);
      Op op{};
      if (!take_binary_op(ops, op)) return left;
      expr->ops.push_back(op);
      LS_ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
      expr->children.push_back(std::move(left));
      expr->children.push_back(std::move(right));
      LS_ASSIGN_OR_RETURN(left, finish(std::move(expr)));
    }
  }

  StatusOr<ExprPtr> parse_sum() { return parse_binary(kSums, &Parser::parse_concat); }
  StatusOr<ExprPtr> parse_concat() { return parse_binary(kConcats, &Parser::parse_product); }
  StatusOr<ExprPtr> parse_product() { return parse_binary(kProducts, &Parser::parse_power); }
  StatusOr<ExprPtr> parse_power() { return parse_binary(kPowers, &Parser::parse_unary); }

  StatusOr<ExprPtr> parse_unary() {
    LS_ASSIGN_OR_RETURN(ExprPtr expr, parse_signed());
    return parse_filters(std::move(expr));
  }

  StatusOr<ExprPtr> parse_signed() {
    if (is_op("-")) return prefix(ExprKind::kNegative, &Parser::parse_signed);
    if (is_op("+")) return prefix(ExprKind::kPositive, &Parser::parse_signed);
    LS_ASSIGN_OR_RETURN(ExprPtr expr, parse_primary());
    return parse_postfix(std::move(expr));
  }

  StatusOr<ExprPtr> literal(Value value) {
    auto expr = make(ExprKind::kLiteral, here().offset);
    expr->literal = std::move(value);
    next();
    return ExprPtr(std::move(expr));
  }

  StatusOr<ExprPtr> parse_primary() {
    const Lexeme& token = here();
    switch (token.type) {
      case TokenType::kName: return parse_name();
      case TokenType::kString: return parse_strings();
      case TokenType::kInteger:
      case TokenType::kFloat: return parse_number();
      default: break;
    }
    if (is_op("(")) return parse_parentheses();
    if (is_op("[")) return parse_list();
    if (is_op("{")) return parse_dict();
    return fail(token, fmt::format("expected an expression, found {}", shown()));
  }

  StatusOr<ExprPtr> parse_name() {
    const std::string& name = here().text;
    if (name == "true" || name == "True") return literal(make_bool(true));
    if (name == "false" || name == "False") return literal(make_bool(false));
    if (name == "none" || name == "None") return literal(make_none());
    auto expr = make(ExprKind::kName, here().offset);
    expr->name = name_id(name);
    next();
    return ExprPtr(std::move(expr));
  }

  StatusOr<ExprPtr> parse_strings() {
    std::string text = here().text;
    while (ahead().type == TokenType::kString) {
      next();
      text += here().text;
    }
    return literal(make_text(std::move(text), Origin::kScaffolding));
  }

  StatusOr<ExprPtr> parse_number() {
    const std::string& digits = here().text;
    const char* const end = digits.data() + digits.size();
    if (here().type == TokenType::kFloat) {
      double value = 0;
      const auto result = std::from_chars(digits.data(), end, value);
      if (result.ec != std::errc()) return fail(here(), "a number beyond the range of floats");
      return literal({value, Origin::kScaffolding});
    }
    int64_t value = 0;
    const auto result = std::from_chars(digits.data(), end, value);
    if (result.ec != std::errc()) return fail(here(), "a number beyond the range of integers");
    return literal(make_integer(value));
  }

  StatusOr<ExprPtr> parse_parentheses() {
    const uint32_t offset = here().offset;
    next();
    if (take_op(")")) return finish(make(ExprKind::kTuple, offset));
    LS_ASSIGN_OR_RETURN(ExprPtr inner, parse_tuple());
    LS_RETURN_IF_ERROR(expect_op(")"));
    return inner;
  }

  StatusOr<ExprPtr> parse_list() {
    auto list = make(ExprKind::kList, here().offset);
    next();
    while (!is_op("]")) {
      if (!list->children.empty()) {
        LS_RETURN_IF_ERROR(expect_op(","));
        if (is_op("]")) break;
      }
      LS_ASSIGN_OR_RETURN(ExprPtr item, parse_expr());
      list->children.push_back(std::move(item));
    }
    next();
    return finish(std::move(list));
  }

  StatusOr<ExprPtr> parse_dict() {
    auto dict = make(ExprKind::kDict, here().offset);
    next();
    while (!is_op("}")) {
      if (!dict->children.empty()) {
        LS_RETURN_IF_ERROR(expect_op(","));
        if (is_op("}")) break;
      }
      LS_ASSIGN_OR_RETURN(ExprPtr key, parse_expr());
      LS_RETURN_IF_ERROR(expect_op(":"));
      LS_ASSIGN_OR_RETURN(ExprPtr value, parse_expr());
      dict->children.push_back(std::move(key));
      dict->children.push_back(std::move(value));
    }
    next();
    return finish(std::move(dict));
  }

  StatusOr<ExprPtr> parse_postfix(ExprPtr expr) {
    while (true) {
      if (is_op(".")) {
        LS_ASSIGN_OR_RETURN(expr, parse_member(std::move(expr)));
      } else if (is_op("[")) {
        LS_ASSIGN_OR_RETURN(expr, parse_subscript(std::move(expr)));
      } else if (is_op("(")) {
        LS_ASSIGN_OR_RETURN(expr, parse_call(std::move(expr)));
      } else {
        return expr;
      }
    }
  }

  StatusOr<ExprPtr> parse_member(ExprPtr object) {
    const uint32_t offset = here().offset;
    next();
    if (here().type == TokenType::kInteger) {
      LS_ASSIGN_OR_RETURN(ExprPtr index, parse_number());
      return pair(ExprKind::kItem, offset, std::move(object), std::move(index));
    }
    auto member = make(ExprKind::kMember, offset);
    LS_ASSIGN_OR_RETURN(member->text, expect_name());
    member->children.push_back(std::move(object));
    return finish(std::move(member));
  }

  StatusOr<ExprPtr> parse_subscript(ExprPtr object) {
    auto slice = make(ExprKind::kSlice, here().offset);
    next();
    slice->children.push_back(std::move(object));
    bool colon = false;
    while (slice->children.size() < 4) {
      ExprPtr part;
      if (!is_op(":") && !is_op("]")) {
        LS_ASSIGN_OR_RETURN(part, parse_expr());
      }
      slice->children.push_back(std::move(part));
      if (!take_op(":")) break;
      colon = true;
    }
    LS_RETURN_IF_ERROR(expect_op("]"));
    if (colon) {
      slice->children.resize(4);
    } else {
      slice->kind = ExprKind::kItem;
      if (slice->children[1] == nullptr) return fail(here(), "an index is missing in '[]'");
    }
    return finish(std::move(slice));
  }

  // "(" arguments ")".
  Status parse_arguments(Expr& call) {
    next();
    bool first = true;
    while (!is_op(")")) {
      if (!first) {
        LS_RETURN_IF_ERROR(expect_op(","));
        if (is_op(")")) break;
      }
      first = false;
      if (is_op("*") || is_op("**")) return unsupported(here(), "an unpacked argument");
      const bool named = here().type == TokenType::kName && ahead().type == TokenType::kOperator &&
                         ahead().text == "=";
      std::string name;
      if (named) {
        name = here().text;
        next();
        next();
      } else if (!call.named.empty()) {
        return fail(here(), "an argument without a name behind one with a name");
      }
      LS_ASSIGN_OR_RETURN(ExprPtr value, parse_expr());
      if (named) {
        call.named.emplace_back(std::move(name), std::move(value));
      } else {
        call.children.push_back(std::move(value));
      }
    }
    next();
    return ok_status();
  }

  StatusOr<ExprPtr> parse_call(ExprPtr callee) {
    auto call = make(ExprKind::kCall, here().offset);
    call->children.push_back(std::move(callee));
    LS_RETURN_IF_ERROR(parse_arguments(*call));
    return finish(std::move(call));
  }

  StatusOr<ExprPtr> parse_filters(ExprPtr expr) {
    while (true) {
      if (is_op("|")) {
        next();
        LS_ASSIGN_OR_RETURN(expr, parse_filter(std::move(expr)));
      } else if (is_name("is")) {
        LS_ASSIGN_OR_RETURN(expr, parse_test(std::move(expr)));
      } else if (is_op("(")) {
        LS_ASSIGN_OR_RETURN(expr, parse_call(std::move(expr)));
      } else {
        return expr;
      }
    }
  }

  // At the filter's name.
  StatusOr<ExprPtr> parse_filter(ExprPtr input) {
    const Lexeme at = here();
    auto expr = make(ExprKind::kFilter, at.offset);
    LS_ASSIGN_OR_RETURN(expr->text, expect_name());
    expr->filter = find_filter(expr->text);
    if (expr->filter == nullptr) return unsupported(at, fmt::format("the filter '{}'", expr->text));
    expr->children.push_back(std::move(input));
    if (is_op("(")) LS_RETURN_IF_ERROR(parse_arguments(*expr));
    return finish(std::move(expr));
  }

  // Whether a test's only argument stands here without parentheses.
  bool at_bare_argument() const {
    switch (here().type) {
      case TokenType::kName:
        return !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") &&
               !is_name("in") && !is_name("not") && !is_name("is");
      case TokenType::kString:
      case TokenType::kInteger:
      case TokenType::kFloat: return true;
      default: return is_op("[") || is_op("{");
    }
  }

  StatusOr<ExprPtr> parse_test(ExprPtr input) {
    next();
    const bool negated = take_name("not");
    const Lexeme at = here();
    auto expr = make(ExprKind::kTest, at.offset);
    LS_ASSIGN_OR_RETURN(expr->text, expect_name());
    expr->test = find_test(expr->text);
    if (expr->test == nullptr) return unsupported(at, fmt::format("the test '{}'", expr->text));
    expr->children.push_back(std::move(input));
    if (is_op("(")) {
      LS_RETURN_IF_ERROR(parse_arguments(*expr));
    } else if (at_bare_argument()) {
      LS_ASSIGN_OR_RETURN(ExprPtr argument, parse_primary());
      LS_ASSIGN_OR_RETURN(argument, parse_postfix(std::move(argument)));
      expr->children.push_back(std::move(argument));
    }
    LS_ASSIGN_OR_RETURN(ExprPtr test, finish(std::move(expr)));
    if (!negated) return test;
    auto inverse = make(ExprKind::kNot, at.offset);
    inverse->children.push_back(std::move(test));
    return finish(std::move(inverse));
  }

  const std::string_view source_;
  const std::vector<Lexeme> tokens_;
  size_t at_ = 0;
  int block_depth_ = 0;
  int expr_depth_ = 0;
  int loop_depth_ = 0;
  std::map<std::string, int> name_ids_;
  Ast ast_;
};

}  // namespace

StatusOr<Ast> parse(std::string_view source) {
  LS_ASSIGN_OR_RETURN(std::vector<Lexeme> tokens, lex(source));
  return Parser(source, std::move(tokens)).run();
}

}  // namespace lineshaft::recipe::jinja
