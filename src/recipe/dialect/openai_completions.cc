#include "recipe/dialect/openai_completions.h"

#include <utility>

namespace lineshaft::recipe {
namespace {

constexpr int32_t kDefaultMaxTokens = 16;

StatusOr<std::vector<TokenId>> read_tokens(const Json& array, const std::string& path,
                                           const DialectLimits& limits) {
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const Json& value = array[i];
    // The path costs more than the check: made for a bad value only.
    const bool fine = value.is_number_integer() && value.get<int64_t>() >= 0 &&
                      value.get<int64_t>() < limits.vocab;
    if (!fine) {
      return field_error(fmt::format("{}[{}]", path, i), "must be a token id between 0 and {}",
                         limits.vocab - 1);
    }
    tokens.push_back(static_cast<TokenId>(value.get<int64_t>()));
  }
  if (tokens.empty()) return field_error(path, "has no tokens");
  return tokens;
}

Status read_prompt(Fields& body, const DialectLimits& limits, CompletionsOrder& order) {
  const Json* prompt = body.take("prompt");
  if (prompt == nullptr) return field_error("prompt", "is missing");
  if (prompt->is_string()) {
    order.prompts.emplace_back(prompt->get_ref<const std::string&>());
    return ok_status();
  }
  if (!prompt->is_array()) {
    return field_error("prompt", "must be a string or an array, not {}", json_type_name(*prompt));
  }
  if (prompt->empty()) return field_error("prompt", "is an empty array");
  if (prompt->front().is_number()) {
    LS_ASSIGN_OR_RETURN(auto tokens, read_tokens(*prompt, "prompt", limits));
    order.prompts.emplace_back(std::move(tokens));
    return ok_status();
  }
  if (prompt->size() > static_cast<size_t>(limits.prompts_max)) {
    return field_error("prompt", "holds {} prompts; at most {} are taken", prompt->size(),
                       limits.prompts_max);
  }
  for (size_t i = 0; i < prompt->size(); ++i) {
    const Json& one = (*prompt)[i];
    const std::string path = fmt::format("prompt[{}]", i);
    if (one.is_string()) {
      order.prompts.emplace_back(one.get_ref<const std::string&>());
    } else if (one.is_array()) {
      LS_ASSIGN_OR_RETURN(auto tokens, read_tokens(one, path, limits));
      order.prompts.emplace_back(std::move(tokens));
    } else {
      return field_error(path, "must be a string or an array of token ids, not {}",
                         json_type_name(one));
    }
  }
  return ok_status();
}

Status read_suffix(Fields& body, const DialectLimits& limits, CompletionsOrder& order) {
  if (!limits.abilities.fill_in_middle) {
    return body.refuse("suffix", "this model does not fill in the middle");
  }
  if (body.take("suffix") == nullptr) return ok_status();
  LS_RETURN_IF_ERROR(body.read_string("suffix", order.suffix.emplace()));
  if (order.echo) return field_error("echo", "can't be combined with 'suffix'");
  for (const CompletionPrompt& prompt : order.prompts) {
    if (!std::holds_alternative<std::string>(prompt)) {
      return field_error("suffix", "needs prompts that are texts, not tokens");
    }
  }
  return ok_status();
}

Status read_best_of(Fields& body, int32_t n) {
  int64_t best_of = n;
  LS_RETURN_IF_ERROR(body.read_integer("best_of", 1, 128, best_of));
  if (best_of == n) return ok_status();
  return field_error("best_of", "must equal 'n': all answers are returned");
}

}  // namespace

StatusOr<CompletionsOrder> parse_openai_completions(const Json& body,
                                                    const DialectLimits& limits) {
  if (!body.is_object()) {
    return invalid_argument("the body must be a JSON object, not {}", json_type_name(body));
  }
  CompletionsOrder order;
  GenerationOrder& generation = order.generation;
  SamplingParams& sampling = generation.sampling;
  Fields fields(body, "", generation.warnings);
  LS_RETURN_IF_ERROR(read_generation(fields, limits, generation));
  if (sampling.max_tokens == 0) sampling.max_tokens = kDefaultMaxTokens;
  LS_RETURN_IF_ERROR(read_best_of(fields, sampling.n));
  int64_t top = -1;
  LS_RETURN_IF_ERROR(fields.read_integer("logprobs", 0, limits.top_logprobs_max, top));
  sampling.top_logprobs = static_cast<int32_t>(top);
  LS_RETURN_IF_ERROR(fields.read_bool("echo", order.echo));
  if (order.echo && top >= 0) {
    return field_error("echo", "can't be combined with 'logprobs': prompts are not scored here");
  }
  LS_RETURN_IF_ERROR(read_prompt(fields, limits, order));
  LS_RETURN_IF_ERROR(read_suffix(fields, limits, order));
  LS_RETURN_IF_ERROR(fields.finish(limits.strict));
  return order;
}

}  // namespace lineshaft::recipe
