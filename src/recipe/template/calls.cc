// What a template can call: methods, macros and the functions of Hugging Face's environment.
#include <time.h>

#include <array>

#include "recipe/template/renderer.h"

namespace lineshaft::recipe::jinja {
namespace {

constexpr int64_t kRangeMax = 100'000;  // as Jinja's sandbox has it

}  // namespace

StatusOr<Value> Renderer::eval_call(const Expr& expr) {
  const Expr& callee = *expr.children[0];
  if (callee.kind != ExprKind::kMember) {
    LS_ASSIGN_OR_RETURN(const Value function, eval(callee));
    LS_ASSIGN_OR_RETURN(const Args args, eval_args(expr));
    return call(function, args);
  }
  LS_ASSIGN_OR_RETURN(const Value object, eval(*callee.children[0]));
  LS_ASSIGN_OR_RETURN(const Args args, eval_args(expr));
  StatusOr<Value> result = call_method(object, callee.text, args, budget_);
  if (result.ok() || result.status().code() != StatusCode::kNotFound) return result;
  LS_ASSIGN_OR_RETURN(const Value member, get_member(object, callee.text, budget_));
  return call(member, args);
}

StatusOr<Value> Renderer::call(const Value& callee, const Args& args) {
  if (callee.is<const Macro*>()) return call_macro(*callee.as<const Macro*>(), args);
  if (callee.is<Function>()) return call_function(callee.as<Function>(), args);
  if (callee.is<Undefined>()) return undefined_error(callee);
  return invalid_argument("'{}' object is not callable", type_name(callee));
}

// A macro sees its arguments and the variables of the template itself, not those of loops around
// its call.
StatusOr<Value> Renderer::call_macro(const Macro& macro, const Args& args) {
  const size_t count = macro.parameters.size();
  if (args.positional.size() > count) {
    return invalid_argument("macro '{}' takes not more than {} argument(s)", macro.text, count);
  }
  Entered entered(*this, &root_);
  for (const auto& [name, value] : args.named) {
    bool known = false;
    for (size_t i = args.positional.size(); i < count; ++i) {
      if (macro.parameters[i].text != name) continue;
      known = true;
      assign(entered.scope, macro.parameters[i].name, value);
    }
    if (!known) {
      return invalid_argument("macro '{}' takes no keyword argument '{}'", macro.text, name);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    const auto given = [&](const auto& named) { return named.first == parameter.text; };
    if (i < args.positional.size()) {
      assign(entered.scope, parameter.name, args.positional[i]);
    } else if (std::any_of(args.named.begin(), args.named.end(), given)) {
      continue;
    } else if (parameter.value != nullptr) {
      LS_ASSIGN_OR_RETURN(Value value, eval(*parameter.value));
      assign(entered.scope, parameter.name, std::move(value));
    } else {
      assign(entered.scope, parameter.name,
             make_undefined(fmt::format("parameter '{}' was not provided", parameter.text)));
    }
  }
  OriginText out;
  LS_RETURN_IF_ERROR(exec(macro.body, out).status());
  return make_text(std::move(out));
}

StatusOr<Value> Renderer::call_function(Function function, const Args& args) {
  switch (function) {
    case Function::kRange: return make_range(args);
    case Function::kNamespace: return make_namespace(args);
    case Function::kStrftimeNow: return format_time(args);
    case Function::kDict: {
      if (!args.positional.empty()) return invalid_argument("dict takes named arguments only");
      std::vector<std::pair<TextPtr, Value>> pairs;
      for (const auto& [name, value] : args.named) {
        pairs.emplace_back(std::make_shared<const OriginText>(name, Origin::kScaffolding), value);
      }
      return make_dict(std::move(pairs));
    }
    case Function::kRaiseException: {
      LS_ASSIGN_OR_RETURN(const auto bound, bind_args(args, {"message"}));
      OriginText message;
      if (bound[0] != nullptr) append_str(message, *bound[0], budget_);
      return invalid_argument("{}", message.text().substr(0, 1000));
    }
  }
  return Value();
}

StatusOr<Value> Renderer::make_namespace(const Args& args) {
  budget_.make(static_cast<int64_t>(sizeof(Namespace) + args.named.size() * sizeof(Value)) + 64);
  Namespace made;
  for (const Value& from : args.positional) {
    if (!from.is<DictPtr>()) return invalid_argument("namespace takes a dict or named arguments");
    for (const auto& [key, value] : from.as<DictPtr>()->entries) {
      budget_.make(static_cast<int64_t>(sizeof(Value) + key->size()));
      made.members.emplace_back(key->text(), value);
    }
  }
  for (const auto& [name, value] : args.named) made.members.emplace_back(name, value);
  namespaces_.push_back(std::move(made));
  return Value{&namespaces_.back(), Origin::kScaffolding};
}

StatusOr<Value> Renderer::make_range(const Args& args) {
  std::array<int64_t, 3> bounds{0, 0, 1};
  const size_t count = args.positional.size();
  if (count < 1 || count > 3 || !args.named.empty()) {
    return invalid_argument("range expects 1 to 3 arguments");
  }
  for (size_t i = 0; i < count; ++i) {
    const Value& value = args.positional[i];
    if (!value.is_integer()) {
      return invalid_argument("'{}' object cannot be interpreted as an integer", type_name(value));
    }
    bounds[count == 1 ? 1 : i] = value.integer();
  }
  const auto [start, stop, step] = bounds;
  if (step == 0) return invalid_argument("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (items.size() >= static_cast<size_t>(kRangeMax)) {
      return invalid_argument("Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                              "({}).",
                              kRangeMax);
    }
    items.push_back(make_integer(at));
    if (!budget_.make(sizeof(Value)) || __builtin_add_overflow(at, step, &at)) break;
  }
  return make_list(std::move(items));
}

StatusOr<Value> Renderer::format_time(const Args& args) {
  LS_ASSIGN_OR_RETURN(const auto bound, bind_args(args, {"format"}));
  if (bound[0] == nullptr || !bound[0]->is_text()) {
    return invalid_argument("strftime_now needs a format");
  }
  const std::string& format = bound[0]->text().text();
  const time_t seconds = unix_seconds_;
  tm parts{};
  if (format.empty() || gmtime_r(&seconds, &parts) == nullptr) return make_text(OriginText());
  std::array<char, 512> buffer{};
  const size_t size = strftime(buffer.data(), buffer.size(), format.c_str(), &parts);
  if (size == 0) return invalid_argument("strftime_now with a format that gives too long a text");
  return make_text(std::string(buffer.data(), size), bound[0]->text().origin());
}

}  // namespace lineshaft::recipe::jinja
