// Dialect: in whose protocol a request came, and so in whose shape it is answered.
#pragma once

#include <cstdint>
#include <string_view>

namespace lineshaft::api {

enum class Dialect : uint8_t { kChat, kCompletions, kResponses, kMessages };

// The dialect in which errors of a path are told; OpenAI's where nothing else is known.
inline Dialect error_dialect(std::string_view path) {
  return path.starts_with("/v1/messages") ? Dialect::kMessages : Dialect::kChat;
}

}  // namespace lineshaft::api
