// lineshaft constrain: compiles a schema, grammar or expression and judges texts by it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include "decoding/constraint/constraint.h"
#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/print.h"
#include "lineshaft/wiring.h"

namespace lineshaft::app {
namespace {

using decoding::Constraint;
using decoding::Refusal;
using decoding::TokenTrie;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

struct Compiled {
  std::shared_ptr<const Constraint> constraint;  // null when refused
  Refusal refusal;
  std::vector<std::string> warnings;
  double compile_us = 0;
};

StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return not_found("can't open {}", path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void keep(StatusOr<std::shared_ptr<const Constraint>> made, const char* keyword, Compiled* out) {
  if (made.ok()) {
    out->constraint = *std::move(made);
  } else {
    out->refusal = {"#", keyword, std::string(message_of(made.status()))};
  }
}

void compile_schema_text(const std::string& text, const std::shared_ptr<const TokenTrie>& trie,
                         Compiled* out) {
  const auto schema = parse_json(text, {.bytes_max = size_t{8} << 20, .depth_max = 256});
  if (!schema.ok()) {
    out->refusal = {"#", "", "not JSON: " + std::string(message_of(schema.status()))};
    return;
  }
  auto compiled = decoding::compile_schema(*schema);
  out->warnings = std::move(compiled.warnings);
  if (compiled.program == nullptr) {
    out->refusal = std::move(compiled.refusal);
    return;
  }
  keep(decoding::json_constraint(trie, std::move(compiled.program)), "", out);
}

StatusOr<Compiled> compile(const ConstrainConfig& config,
                           const std::shared_ptr<const TokenTrie>& trie) {
  Compiled out;
  const int given = !config.schema.empty() + !config.grammar.empty() + config.has_regex();
  if (given != 1) {
    return invalid_argument("give one of --schema, --grammar and --regex");
  }
  std::string text;
  if (!config.has_regex()) {
    LS_ASSIGN_OR_RETURN(text, read_file(config.schema.empty() ? config.grammar : config.schema));
  }
  const auto begun = Clock::now();
  if (!config.schema.empty()) {
    compile_schema_text(text, trie, &out);
  } else if (!config.grammar.empty()) {
    auto grammar = decoding::parse_grammar(text);
    if (grammar.ok()) {
      keep(decoding::grammar_constraint(trie, *std::move(grammar)), "grammar", &out);
    } else {
      out.refusal = {"#", "grammar", std::string(message_of(grammar.status()))};
    }
  } else {
    keep(decoding::regex_constraint(trie, config.regex.front()), "regex", &out);
  }
  out.compile_us = microseconds(Clock::now() - begun);
  return out;
}

// Times the mask before each token of the text, and checks that each mask has the token.
struct MaskTimes {
  std::vector<double> us;
  int64_t wrong = 0;

  void run(const Constraint& constraint, const TokenTrie& trie, const std::vector<TokenId>& ids) {
    decoding::Matcher matcher = constraint.start();
    decoding::MaskWords mask(trie.words());
    for (const TokenId id : ids) {
      const auto begun = Clock::now();
      if (!matcher.fill_mask(mask).ok()) return;
      us.push_back(microseconds(Clock::now() - begun));
      const bool allowed = (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
      const bool taken = matcher.accept(id);
      if (allowed != taken) ++wrong;
      if (!taken) return;
    }
  }

  Json report(double compile_us) {
    std::sort(us.begin(), us.end());
    const auto at = [&](double share) {
      if (us.empty()) return 0.0;
      const auto i = static_cast<size_t>(share * static_cast<double>(us.size()));
      return us[std::min(i, us.size() - 1)];
    };
    double sum = 0;
    for (const double x : us) sum += x;
    const double mean = us.empty() ? 0 : sum / static_cast<double>(us.size());
    return Json{{"compile_us", compile_us},
                {"masks", us.size()},
                {"masks_wrong", wrong},
                {"mask_us", Json{{"mean", mean}, {"p50", at(0.5)}, {"p90", at(0.9)},
                                 {"p99", at(0.99)}, {"p999", at(0.999)}, {"max", at(1)}}}};
  }
};

void print_refusal(const Config& config, const Refusal& refusal) {
  if (config.common.json) {
    print_json(Json{{"refused", Json{{"pointer", refusal.pointer},
                                     {"keyword", refusal.keyword},
                                     {"reason", refusal.reason}}}});
  } else {
    print(stdout, "refused: {} {}: {}\n", refusal.pointer, refusal.keyword, refusal.reason);
  }
}

}  // namespace

int run_constrain(const Config& config) {
  const auto tokenizer = open_tokenizer(config);
  if (!tokenizer.ok()) return fail_load(tokenizer.status());
  const auto trie = std::make_shared<const TokenTrie>(*(*tokenizer)->vocab());
  const auto compiled = compile(config.constrain, trie);
  if (!compiled.ok()) return fail(kWrongUse, compiled.status());
  if (compiled->constraint == nullptr) {
    print_refusal(config, compiled->refusal);
    return kOk;
  }
  for (const std::string& warning : compiled->warnings) print(stderr, "warning: {}\n", warning);
  MaskTimes times;
  const Status status = for_each_line(std::cin, [&](const std::string& line) -> Status {
    LS_ASSIGN_OR_RETURN(const Json instance, parse_json(line));
    if (!instance.is_string()) return invalid_argument("expected a JSON string");
    const auto& text = instance.get_ref<const std::string&>();
    decoding::Matcher matcher = compiled->constraint->start();
    size_t at = 0;
    const bool taken = matcher.accept_bytes(text, &at);
    if (taken) at = text.size();
    const bool accepted = taken && matcher.can_end();
    if (config.common.json) {
      print_json(Json{{"accepted", accepted}, {"at", at}});
    } else {
      print(stdout, "{} at {}\n", accepted ? "accepted" : "rejected", at);
    }
    if (config.constrain.bench) {
      times.run(*compiled->constraint, *trie,
                (*tokenizer)->encode(text, recipe::Tokenizer::Mode::kPlain));
    }
    return ok_status();
  });
  if (!status.ok()) return fail(kWrongUse, status);
  if (config.constrain.bench) print_json(Json{{"bench", times.report(compiled->compile_us)}});
  return kOk;
}

}  // namespace lineshaft::app
