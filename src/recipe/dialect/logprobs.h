// The log-probabilities of one token in the form of OpenAI's replies. Knows no stream.
#pragma once

#include "base/json.h"
#include "core/vocab.h"
#include "recipe/answer.h"

namespace lineshaft::recipe {

// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}, …]}. A token that
// is not UTF-8 is shown as \x20\xf0…; a control token is no part of the text, so its bytes are
// null. Total.
Json logprob_json(const AnswerToken& token, const Vocab& vocab);

}  // namespace lineshaft::recipe
