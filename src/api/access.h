// Access: what must hold before a request is looked at: its Host, its key, its content type. Pure
// functions of the request and of what the server was told.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/keys.h"
#include "base/status.h"
#include "net/http_types.h"

namespace lineshaft::api {

// The client's id when it is one that can go into a log line and a header.
bool usable_id(std::string_view id);

// Against DNS rebinding, on loopback: a page whose name is pointed at 127.0.0.1 sends its own name.
// kInvalidArgument, kPermissionDenied.
Status check_host(const net::HttpRequest& request, bool loopback,
                  const std::vector<std::string>& more_hosts);

// JSON media types; a missing one too, unless a browser sent it: a page of another site can send a
// body without a type, or as a form or text, without asking first.
Status check_content_type(const net::HttpRequest& request);

// The key that the request gives, as OpenAI's clients do or as Anthropic's; nullptr when the server
// has none. kUnauthenticated.
StatusOr<std::shared_ptr<KeyUse>> check_key(const net::HttpRequest& request, const KeyRing& keys);

}  // namespace lineshaft::api
