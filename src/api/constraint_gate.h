// What only a constraint on the tokens could promise: answers in JSON, calls that must come, calls
// that must fit their schema. The one place that says whether such a request is taken.
#pragma once

#include "api/dialect.h"
#include "base/status.h"
#include "recipe/conversation.h"

namespace lineshaft::api {

// kInvalidArgument naming the dialect's field: nothing enforces constraints yet, and a promise that
// the model is only asked to keep would be none.
Status check_constraints(Dialect dialect, const recipe::Conversation& conversation);

}  // namespace lineshaft::api
