#include "recipe/dialect/thinking.h"

#include <algorithm>
#include <utility>

namespace lineshaft::recipe {
namespace {

constexpr std::pair<std::string_view, Effort> kEfforts[] = {
    {"none", Effort::kHigh},        {"minimal", Effort::kLow}, {"low", Effort::kLow},
    {"medium", Effort::kHigh},      {"high", Effort::kHigh},   {"xhigh", Effort::kExtraHigh},
    {"ultra", Effort::kMax},        {"max", Effort::kMax},
};

}  // namespace

Status read_thinking_field(Fields& body, bool strict, Warnings& warnings, ThinkingRequest& wanted) {
  const std::string path = body.path_of("thinking");
  const Json* thinking = body.take("thinking");
  if (thinking == nullptr) return ok_status();
  if (!thinking->is_object()) {
    return field_error(path, "must be an object, not {}", json_type_name(*thinking));
  }
  Fields fields(*thinking, path, warnings);
  if (fields.take("type") == nullptr) return field_error(fields.path_of("type"), "is missing");
  LS_RETURN_IF_ERROR(fields.read_string("type", wanted.type));
  if (wanted.type != "enabled" && wanted.type != "adaptive" && wanted.type != "disabled") {
    return field_error(fields.path_of("type"), "must be enabled, adaptive or disabled, not '{}'",
                       shown(wanted.type));
  }
  LS_RETURN_IF_ERROR(
      fields.ignore("budget_tokens", kNumber, "the model is told an effort, not a budget"));
  return fields.finish(strict);
}

Status set_thinking(const ThinkingRequest& wanted, bool on_unless_told,
                    Conversation& conversation) {
  conversation.thinking = on_unless_told;
  if (!wanted.effort.empty()) {
    const auto known = std::find_if(std::begin(kEfforts), std::end(kEfforts), [&](const auto& e) {
      return e.first == wanted.effort;
    });
    if (known == std::end(kEfforts)) {
      return field_error(wanted.effort_path, "must be none, minimal, low, medium, high, xhigh, "
                         "ultra or max, not '{}'", shown(wanted.effort));
    }
    conversation.effort = known->second;
    conversation.thinking = wanted.effort != "none";
  }
  if (!wanted.type.empty()) conversation.thinking = wanted.type != "disabled";
  return ok_status();
}

}  // namespace lineshaft::recipe
