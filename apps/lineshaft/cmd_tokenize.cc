// lineshaft tokenize: text to ids, a line at a time. No BOS is added.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "lineshaft/commands.h"
#include "lineshaft/exit_code.h"
#include "lineshaft/json_lines.h"
#include "lineshaft/print.h"
#include "lineshaft/wiring.h"

namespace lineshaft::app {
namespace {

using recipe::Tokenizer;

// {"text": …, "special": bool} → {"ids": […]}; {"ids": […]} → {"text": …}.
StatusOr<Json> answer(const Tokenizer& tokenizer, const std::string& line) {
  LS_ASSIGN_OR_RETURN(const Json order, parse_json(line));
  if (!order.is_object()) return invalid_argument("expected an object");
  if (const auto ids = order.find("ids"); ids != order.end()) {
    LS_ASSIGN_OR_RETURN(const auto tokens, token_ids(*ids, tokenizer.vocab()->size()));
    return Json{{"text", tokenizer.decode(tokens)}};
  }
  const auto text = order.find("text");
  if (text == order.end() || !text->is_string()) return invalid_argument("'text' is no string");
  const auto special = order.find("special");
  if (special != order.end() && !special->is_boolean()) {
    return invalid_argument("'special' is no boolean");
  }
  const auto mode = special != order.end() && special->get<bool>() ? Tokenizer::Mode::kSpecial
                                                                   : Tokenizer::Mode::kPlain;
  return Json{{"ids", tokenizer.encode(text->get_ref<const std::string&>(), mode)}};
}

}  // namespace

int run_tokenize(const Config& config) {
  const auto tokenizer = open_tokenizer(config);
  if (!tokenizer.ok()) return fail_load(tokenizer.status());
  const Status status = for_each_line(std::cin, [&](const std::string& line) -> Status {
    if (config.common.json) {
      LS_ASSIGN_OR_RETURN(const Json reply, answer(**tokenizer, line));
      print_json(reply);
      return ok_status();
    }
    std::string ids;
    for (const TokenId id : (*tokenizer)->encode(line, Tokenizer::Mode::kPlain)) {
      ids += fmt::format("{}{}", ids.empty() ? "" : " ", id);
    }
    print(stdout, "{}\n", ids);
    return ok_status();
  });
  return status.ok() ? kOk : fail(kWrongUse, status);
}

}  // namespace lineshaft::app
