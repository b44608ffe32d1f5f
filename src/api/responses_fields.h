// The fields of a Responses body that are about the server's store and the reply, not the prompt.
#pragma once

#include <string_view>

#include "api/order.h"
#include "base/json.h"
#include "base/status.h"

namespace lineshaft::api {

// Reads them into `order` and takes them out of `body`, whose input becomes the whole dialogue:
// that of previous_response_id, its output, then the new items. kInvalidArgument naming the field;
// kNotFound: no such response.
Status read_response_fields(Json& body, const ResponseStore& store, std::string_view tenant,
                            Order& order);

}  // namespace lineshaft::api
