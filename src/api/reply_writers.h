// The writer for the reply to one request, in its dialect. Joins what the request said and what the
// server knows; the shapes are recipe's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/order.h"
#include "core/vocab.h"
#include "recipe/dialect/reply_writer.h"

namespace lineshaft::api {

struct ReplyInfo {
  std::string id;                     // without the dialect's prefix
  std::string request_id;             // told in Anthropic's errors
  int64_t created = 0;                // unix seconds
  std::string system_fingerprint;
  bool begins_with_reasoning = false;
};

// "chatcmpl-", "cmpl-", "resp_" or "msg_".
std::string_view id_prefix(Dialect dialect);

std::unique_ptr<recipe::ReplyWriter> make_reply_writer(const Order& order, const ReplyInfo& info,
                                                       std::shared_ptr<const Vocab> vocab);

}  // namespace lineshaft::api
