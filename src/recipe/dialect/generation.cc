#include "recipe/dialect/generation.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lineshaft::recipe {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();

Status read_stop(Fields& body, const DialectLimits& limits, std::vector<std::string>& out) {
  const Json* stop = body.take("stop");
  if (stop == nullptr) return ok_status();
  const auto add = [&](const Json& value, const std::string& path) -> Status {
    if (!value.is_string()) {
      return field_error(path, "must be a string, not {}", json_type_name(value));
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty()) return field_error(path, "must not be empty");
    if (text.size() > static_cast<size_t>(limits.stop_bytes_max)) {
      return field_error(path, "is longer than {} bytes", limits.stop_bytes_max);
    }
    out.push_back(text);
    return ok_status();
  };
  if (stop->is_string()) return add(*stop, "stop");
  if (!stop->is_array()) {
    return field_error("stop", "must be a string or an array of strings, not {}",
                       json_type_name(*stop));
  }
  if (stop->size() > static_cast<size_t>(limits.stops_max)) {
    return field_error("stop", "has {} entries; at most {} are taken", stop->size(),
                       limits.stops_max);
  }
  for (size_t i = 0; i < stop->size(); ++i) {
    LS_RETURN_IF_ERROR(add((*stop)[i], fmt::format("stop[{}]", i)));
  }
  return ok_status();
}

Status read_stop_token_ids(Fields& body, const DialectLimits& limits, std::vector<TokenId>& out) {
  const Json* ids = body.take("stop_token_ids");
  if (ids == nullptr) return ok_status();
  if (!ids->is_array()) {
    return field_error("stop_token_ids", "must be an array of token ids, not {}",
                       json_type_name(*ids));
  }
  if (ids->size() > 256) return field_error("stop_token_ids", "has more than 256 entries");
  for (size_t i = 0; i < ids->size(); ++i) {
    LS_ASSIGN_OR_RETURN(const int64_t id, integer_value((*ids)[i],
                                                        fmt::format("stop_token_ids[{}]", i), 0,
                                                        limits.vocab - 1));
    out.push_back(static_cast<TokenId>(id));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return ok_status();
}

Status read_logit_bias(Fields& body, const DialectLimits& limits,
                       std::vector<std::pair<TokenId, float>>& out) {
  const Json* bias = body.take("logit_bias");
  if (bias == nullptr) return ok_status();
  if (!bias->is_object()) {
    return field_error("logit_bias", "must be an object of token id to bias, not {}",
                       json_type_name(*bias));
  }
  for (const auto& [key, value] : bias->items()) {
    const std::string path = fmt::format("logit_bias.{}", shown(key));
    TokenId id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
    // "007" names 7 too; one spelling a token, so that no token is named twice.
    if (!whole || id < 0 || id >= limits.vocab || std::to_string(id) != key) {
      return field_error(path, "is not a token id between 0 and {}", limits.vocab - 1);
    }
    LS_ASSIGN_OR_RETURN(const double number, number_value(value, path, -100.0, 100.0));
    out.emplace_back(id, static_cast<float>(number));
  }
  std::sort(out.begin(), out.end());
  return ok_status();
}

Status read_seed(Fields& body, GenerationOrder& order) {
  const Json* seed = body.take("seed");
  if (seed == nullptr) return ok_status();
  LS_ASSIGN_OR_RETURN(const int64_t value, integer_value(*seed, "seed", INT64_MIN, INT64_MAX));
  order.sampling.seed = static_cast<uint64_t>(value);
  order.seed_given = true;
  return ok_status();
}

Status read_shape(Fields& body, SamplingParams& sampling) {
  LS_RETURN_IF_ERROR(body.read_number("temperature", 0.0, 2.0, sampling.temperature));
  LS_RETURN_IF_ERROR(body.read_number("top_p", 0.0, 1.0, sampling.top_p));
  if (!(sampling.top_p > 0.0f)) return field_error("top_p", "must be above 0 and at most 1");
  LS_RETURN_IF_ERROR(body.read_number("min_p", 0.0, 1.0, sampling.min_p));
  int64_t top_k = 0;
  LS_RETURN_IF_ERROR(body.read_integer("top_k", -1, kIntMax, top_k));
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  LS_RETURN_IF_ERROR(body.read_number("presence_penalty", -2.0, 2.0, sampling.presence_penalty));
  LS_RETURN_IF_ERROR(body.read_number("frequency_penalty", -2.0, 2.0, sampling.frequency_penalty));
  // llama.cpp's and vLLM's spellings of the same.
  for (const std::string_view key : {"repeat_penalty", "repetition_penalty"}) {
    LS_RETURN_IF_ERROR(body.read_number(key, 0.0, 100.0, sampling.repetition_penalty));
    if (!(sampling.repetition_penalty >= 1e-3f)) return field_error(key, "must be at least 0.001");
  }
  return ok_status();
}

Status read_stream(Fields& body, const DialectLimits& limits, GenerationOrder& order) {
  LS_RETURN_IF_ERROR(body.read_bool("stream", order.stream));
  const Json* options = body.take("stream_options");
  if (options == nullptr) return ok_status();
  if (!options->is_object()) {
    return field_error("stream_options", "must be an object, not {}", json_type_name(*options));
  }
  if (!order.stream) {
    return field_error("stream_options", "is only allowed when 'stream' is true");
  }
  Fields fields(*options, "stream_options", order.warnings);
  LS_RETURN_IF_ERROR(fields.read_bool("include_usage", order.include_usage));
  LS_RETURN_IF_ERROR(fields.ignore("include_obfuscation", kBool, "nothing is padded here"));
  return fields.finish(limits.strict);
}

// Extensions of other servers that change the answer, so that ignoring them would be a lie.
Status refuse_extensions(Fields& body) {
  for (const std::string_view key :
       {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
        "grammar", "json_schema"}) {
    LS_RETURN_IF_ERROR(body.refuse(key, "structured output comes with a later release"));
  }
  LS_RETURN_IF_ERROR(body.refuse("min_tokens", "an answer ends where the model ends it"));
  return body.refuse("use_beam_search", "answers are sampled");
}

Status ignore_harmless(Fields& body) {
  struct Harmless {
    std::string_view key;
    unsigned types;
    std::string_view why;
  };
  constexpr Harmless kHarmless[] = {
      {"user", kString, "nothing is kept about users"},
      {"metadata", kObject, "answers are not stored"},
      {"store", kBool, "answers are not stored"},
      {"service_tier", kString, "there is one tier"},
      {"safety_identifier", kString, "nothing is kept about users"},
      {"prompt_cache_key", kString, "prefixes are found by their content"},
      {"prompt_cache_retention", kString, "prefixes stay while there is room"},
      {"prompt_cache_options", kObject, "prefixes are found by their content"},
      {"cache_prompt", kBool, "prefixes are always reused"},
      {"id_slot", kNumber, "there are no slots"},
      {"timings_per_token", kBool, "see /metrics"},
      {"skip_special_tokens", kBool, "control tokens are never part of the text"},
  };
  for (const Harmless& field : kHarmless) {
    LS_RETURN_IF_ERROR(body.ignore(field.key, field.types, field.why));
  }
  return ok_status();
}

Status read_priority(Fields& body, Priority& priority) {
  std::string name = "normal";
  LS_RETURN_IF_ERROR(body.read_string("priority", name));
  if (name == "high") {
    priority = Priority::kHigh;
  } else if (name == "low") {
    priority = Priority::kLow;
  } else if (name != "normal") {
    return field_error("priority", "is \"{}\"; want high, normal or low", shown(name));
  }
  return ok_status();
}

}  // namespace

Status read_max_tokens(Fields& body, std::string_view key, const DialectLimits& limits,
                       SamplingParams& sampling) {
  // A limit of our own is refused; a number that no context holds is as good as the context.
  const bool limited = limits.tokens_max < kIntMax;
  int64_t tokens = sampling.max_tokens;
  LS_RETURN_IF_ERROR(
      body.read_integer(key, 1, limited ? int64_t{limits.tokens_max} : INT64_MAX, tokens));
  sampling.max_tokens = static_cast<int32_t>(std::min(tokens, kIntMax));
  return ok_status();
}

Status read_generation(Fields& body, const DialectLimits& limits, GenerationOrder& order) {
  const Json* model = body.take("model");
  if (model == nullptr) return field_error("model", "is missing: name the model");
  LS_RETURN_IF_ERROR(body.read_string("model", order.model));
  SamplingParams& sampling = order.sampling;
  LS_RETURN_IF_ERROR(read_shape(body, sampling));
  LS_RETURN_IF_ERROR(read_max_tokens(body, "max_tokens", limits, sampling));
  LS_RETURN_IF_ERROR(read_seed(body, order));
  int64_t n = 1;
  LS_RETURN_IF_ERROR(body.read_integer("n", 1, limits.choices_max, n));
  sampling.n = static_cast<int32_t>(n);
  LS_RETURN_IF_ERROR(read_stop(body, limits, order.stop));
  LS_RETURN_IF_ERROR(read_stop_token_ids(body, limits, sampling.stop_tokens));
  LS_RETURN_IF_ERROR(read_logit_bias(body, limits, sampling.logit_bias));
  LS_RETURN_IF_ERROR(body.read_bool("ignore_eos", sampling.ignore_eos));
  LS_RETURN_IF_ERROR(read_priority(body, order.priority));
  LS_RETURN_IF_ERROR(read_stream(body, limits, order));
  LS_RETURN_IF_ERROR(refuse_extensions(body));
  return ignore_harmless(body);
}

}  // namespace lineshaft::recipe
