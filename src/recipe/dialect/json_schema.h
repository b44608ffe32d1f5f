// JSON Schema as far as requests are checked for it. Constraining an answer is not done here.
#pragma once

#include "base/json.h"
#include "base/status.h"

namespace lineshaft::recipe {

// kInvalidArgument, saying what is wrong, unless the document is a schema whose known keywords have
// values of the types that JSON Schema gives them, at any depth.
Status check_schema(const Json& schema);

// The canonical form of a strict schema: every object has all its properties required and no others
// allowed, and only the keywords that strict schemas know are kept, in their order.
// kInvalidArgument for schemas that have no such form. `root` is what the sentences call the whole.
StatusOr<Json> strict_schema(const Json& schema, std::string_view root);

}  // namespace lineshaft::recipe
