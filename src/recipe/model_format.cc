#include "recipe/model_format.h"

#include <utility>

#include "recipe/encoding/deepseek.h"
#include "recipe/encoding/deepseek_v3.h"

namespace lineshaft::recipe {
namespace {

StatusOr<ModelFormat> format_v4(DeepSeekOptions::Version version,
                                const std::shared_ptr<const Tokenizer>& tokenizer) {
  ModelFormat format;
  LS_ASSIGN_OR_RETURN(format.encoder, DeepSeekEncoder::make(tokenizer, {.version = version}));
  Abilities& can = format.abilities;
  can.tools = can.reasoning = can.answer_forms = can.continuation = can.reminders = true;
  can.deferred_tools = version == DeepSeekOptions::Version::kV41;
  can.images = version == DeepSeekOptions::Version::kV4 ? Abilities::Images::kNamed
                                                        : Abilities::Images::kSeen;
  return format;
}

StatusOr<ModelFormat> format_v3(DeepSeekV3Version version,
                                const std::shared_ptr<const Tokenizer>& tokenizer) {
  ModelFormat format;
  LS_ASSIGN_OR_RETURN(format.encoder, DeepSeekV3Encoder::make(tokenizer, version));
  format.abilities.continuation = true;
  format.abilities.reasoning = version == DeepSeekV3Version::kV31;
  format.abilities.thinks_unless_told = false;
  return format;
}

}  // namespace

StatusOr<ModelFormat> model_format(std::string_view name,
                                   const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (name == "deepseek_v3") return format_v3(DeepSeekV3Version::kV3, tokenizer);
  if (name == "deepseek_r1") return format_v3(DeepSeekV3Version::kR1, tokenizer);
  if (name == "deepseek_v31") return format_v3(DeepSeekV3Version::kV31, tokenizer);
  if (name == "deepseek_v4") return format_v4(DeepSeekOptions::Version::kV4, tokenizer);
  if (name == "deepseek_v41") return format_v4(DeepSeekOptions::Version::kV41, tokenizer);
  return not_found("no encoding is called '{}'; there are deepseek_v3, deepseek_r1, deepseek_v31, "
                   "deepseek_v4 and deepseek_v41", name);
}

ParserOptions parser_options(const Conversation& conversation, std::vector<std::string> stops) {
  using Start = ParserOptions::Start;
  ParserOptions options;
  const bool goes_on = !conversation.turns.empty() && conversation.turns.back().unfinished;
  if (goes_on && conversation.thinking) {
    options.start = conversation.turns.back().content.empty() ? Start::kReasoningGoesOn
                                                              : Start::kContentGoesOn;
  } else if (conversation.thinking) {
    options.start = Start::kReasoning;
  } else if (conversation.tool_choice == ToolChoice::kRequired && offers_tools(conversation)) {
    options.start = Start::kCalls;
  }
  options.tools = offers_tools(conversation);
  options.json =
      !options.tools && conversation.response_format != ResponseFormat::kText;
  options.stops = std::move(stops);
  return options;
}

}  // namespace lineshaft::recipe
