#include "recipe/dialect/logprobs.h"

#include <cmath>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace lineshaft::recipe {
namespace {

// OpenAI's number for "next to impossible": its types have no null and JSON has no infinity.
constexpr float kLowestLogprob = -9999.0f;

std::string shown_token(std::string_view bytes) {
  if (valid_utf8_prefix(bytes) == bytes.size()) return std::string(bytes);
  std::string out;
  for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  return out;
}

Json entry(TokenId id, float logprob, const Vocab& vocab) {
  const auto index = static_cast<size_t>(id);
  const bool known = index < vocab.bytes.size();
  const std::string_view bytes = known ? std::string_view(vocab.bytes[index]) : std::string_view{};
  Json out = Json::object();
  out["token"] = shown_token(bytes);
  out["logprob"] = json_float(std::isfinite(logprob) ? logprob : kLowestLogprob);
  out["bytes"] = nullptr;
  if (known && vocab.kinds[index] == TokenKind::kControl) return out;
  out["bytes"] = Json::array();
  for (const char byte : bytes) out["bytes"].push_back(static_cast<uint8_t>(byte));
  return out;
}

}  // namespace

Json logprob_json(const AnswerToken& token, const Vocab& vocab) {
  Json out = entry(token.token, token.logprob, vocab);
  out["top_logprobs"] = Json::array();
  for (const TokenLogprob& other : token.top) {
    out["top_logprobs"].push_back(entry(other.token, other.logprob, vocab));
  }
  return out;
}

}  // namespace lineshaft::recipe
