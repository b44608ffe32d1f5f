#include "api/responses_fields.h"

#include <string>
#include <utility>

#include "recipe/dialect/fields.h"

namespace lineshaft::api {
namespace {

using recipe::Fields;
using recipe::field_error;

constexpr size_t kMetadataMax = 16;
constexpr std::string_view kLogprobs = "message.output_text.logprobs";

Status check_metadata(const Json* metadata) {
  if (metadata == nullptr) return ok_status();
  if (!metadata->is_object()) {
    return field_error("metadata", "must be an object, not {}",
                       recipe::json_type_name(*metadata));
  }
  if (metadata->size() > kMetadataMax) {
    return field_error("metadata", "has more than {} entries", kMetadataMax);
  }
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) {
      return field_error(fmt::format("metadata.{}", recipe::shown(key)), "must be a string");
    }
  }
  return ok_status();
}

// What of an answer is to be told; log-probabilities are the one thing that isn't told anyway.
Status read_include(const Json* include, recipe::Warnings& warnings, bool& logprobs) {
  if (include == nullptr) return ok_status();
  if (!include->is_array()) return field_error("include", "must be an array of strings");
  for (size_t i = 0; i < include->size(); ++i) {
    const std::string path = fmt::format("include[{}]", i);
    if (!(*include)[i].is_string()) return field_error(path, "must be a string");
    const auto& what = (*include)[i].get_ref<const std::string&>();
    if (what == kLogprobs) {
      logprobs = true;
    } else if (what != "reasoning.encrypted_content") {
      warnings.add(fmt::format("'{}' is ignored: there is no '{}' here", path,
                               recipe::shown(what)));
    }
  }
  return ok_status();
}

// The input as items, whichever way it was given. Other types are left for the reader to refuse.
Json items_of(const Json& input) {
  if (!input.is_string()) return input;
  Json item = {{"type", "message"}, {"role", "user"}};
  item["content"] = input;
  return Json::array({std::move(item)});
}

Status join_dialogue(Json& body, std::string_view previous, const ResponseStore& store,
                     std::string_view tenant) {
  const auto stored = store.find(previous, tenant);
  if (stored == nullptr) {
    const Status status = not_found("Previous response with id '{}' not found.",
                                    recipe::shown(previous));
    return with_reason(with_field(status, "previous_response_id"), "previous_response_not_found");
  }
  Json all = stored->input;
  for (const Json& item : stored->response["output"]) all.push_back(item);
  const auto input = body.find("input");
  if (input != body.end() && !input->is_null()) {
    Json items = items_of(*input);
    if (!items.is_array()) {
      return field_error("input", "must be a string or an array of items");
    }
    for (Json& item : items) all.push_back(std::move(item));
  }
  body["input"] = std::move(all);
  return ok_status();
}

}  // namespace

Status read_response_fields(Json& body, const ResponseStore& store, std::string_view tenant,
                            Order& order) {
  if (!body.is_object()) return ok_status();  // the reader says what is wrong
  order.body = body;
  order.body.erase("input");
  order.store = true;
  recipe::Warnings& warnings = order.generation.warnings;
  Fields fields(body, "", warnings);
  bool background = false;
  bool logprobs = false;
  std::string previous;
  LS_RETURN_IF_ERROR(fields.read_bool("store", order.store));
  LS_RETURN_IF_ERROR(fields.read_bool("background", background));
  if (background) return field_error("background", "is not supported: ask and wait, or stream");
  LS_RETURN_IF_ERROR(fields.refuse("conversation", "use previous_response_id"));
  LS_RETURN_IF_ERROR(fields.refuse("prompt", "there are no stored prompts"));
  LS_RETURN_IF_ERROR(fields.read_string("previous_response_id", previous));
  LS_RETURN_IF_ERROR(check_metadata(fields.take("metadata")));
  LS_RETURN_IF_ERROR(read_include(fields.take("include"), warnings, logprobs));
  const bool ranked = body.contains("top_logprobs") && body["top_logprobs"] != 0;
  if (logprobs && !ranked) body["top_logprobs"] = 0;
  if (!logprobs && !ranked) body.erase("top_logprobs");
  if (!previous.empty()) LS_RETURN_IF_ERROR(join_dialogue(body, previous, store, tenant));
  for (const char* key :
       {"store", "background", "previous_response_id", "metadata", "include"}) {
    body.erase(key);
  }
  if (const auto input = body.find("input"); input != body.end() && !input->is_null()) {
    order.input = items_of(*input);
  }
  return ok_status();
}

}  // namespace lineshaft::api
