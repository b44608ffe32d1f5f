#include "api/keys.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "api/error_map.h"

namespace lineshaft::api {
namespace {

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// True iff all bytes are equal; looks at all of them in any case.
bool equal_in_constant_time(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  uint8_t differs = 0;
  for (size_t i = 0; i < a.size(); ++i) differs |= a[i] ^ b[i];
  return differs == 0;
}

StatusOr<std::array<uint8_t, 32>> digest_from_hex(std::string_view hex, size_t index) {
  std::array<uint8_t, 32> out{};
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (hex.size() != 64) return invalid_argument("key[{}].sha256 has not 64 hex digits", index);
  for (size_t i = 0; i < 32; ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return invalid_argument("key[{}].sha256 has not 64 hex digits", index);
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return out;
}

// A string, or nothing when the name is missing.
StatusOr<std::optional<std::string>> text_of(const toml::table& table, std::string_view name,
                                             size_t index) {
  const toml::node* node = table.get(name);
  if (node == nullptr) return std::optional<std::string>();
  const auto value = node->value_exact<std::string>();
  if (!value || value->empty()) {
    return invalid_argument("key[{}].{} must be a string that is not empty", index, name);
  }
  return std::optional<std::string>(*value);
}

StatusOr<int64_t> limit_of(const toml::table& table, std::string_view name, int64_t max,
                           size_t index) {
  const toml::node* node = table.get(name);
  if (node == nullptr) return int64_t{0};
  const auto value = node->value_exact<int64_t>();
  if (!value || *value < 1 || *value > max) {
    return invalid_argument("key[{}].{} must be an integer between 1 and {}", index, name, max);
  }
  return *value;
}

StatusOr<KeyEntry> read_key(const toml::table& table, size_t index) {
  for (const auto& [name, node] : table) {
    constexpr std::string_view kNames[] = {"token",  "sha256", "tenant", "concurrent_requests",
                                           "tokens_per_minute", "cache_salt"};
    if (std::find(std::begin(kNames), std::end(kNames), name.str()) == std::end(kNames)) {
      return invalid_argument("key[{}].{} is not a known name", index, name.str());
    }
  }
  KeyEntry entry;
  LS_ASSIGN_OR_RETURN(const auto token, text_of(table, "token", index));
  LS_ASSIGN_OR_RETURN(const auto hex, text_of(table, "sha256", index));
  if (token.has_value() == hex.has_value()) {
    return invalid_argument("key[{}] needs exactly one of token and sha256", index);
  }
  if (token) {
    entry.digest = sha256(as_bytes(*token));
  } else {
    LS_ASSIGN_OR_RETURN(entry.digest, digest_from_hex(*hex, index));
  }
  LS_ASSIGN_OR_RETURN(const auto tenant, text_of(table, "tenant", index));
  entry.tenant = tenant.value_or("key-" + to_hex(std::span(entry.digest).first(6)));
  LS_ASSIGN_OR_RETURN(const auto salt, text_of(table, "cache_salt", index));
  const std::string salted = salt ? "salt:" + *salt : "tenant:" + entry.tenant;
  entry.cache_salt = hash128(as_bytes(salted));
  LS_ASSIGN_OR_RETURN(const int64_t concurrent,
                      limit_of(table, "concurrent_requests", 1'000'000, index));
  entry.concurrent_requests_max = static_cast<int32_t>(concurrent);
  LS_ASSIGN_OR_RETURN(entry.tokens_per_minute_max,
                      limit_of(table, "tokens_per_minute", int64_t{1} << 40, index));
  return entry;
}

}  // namespace

KeyUse::KeyUse(KeyEntry entry)
    : entry_(std::move(entry)), tokens_left_(static_cast<double>(entry_.tokens_per_minute_max)) {}

// A bucket that holds a minute's tokens and fills at their rate.
void KeyUse::refill(Instant now) {
  const auto full = static_cast<double>(entry_.tokens_per_minute_max);
  if (started_) {
    tokens_left_ = std::min(full, tokens_left_ + full * (now - refilled_).in_seconds() / 60.0);
  }
  started_ = true;
  refilled_ = now;
}

Status KeyUse::begin(int64_t prompt_tokens, Instant now) {
  if (entry_.concurrent_requests_max > 0 && running_ >= entry_.concurrent_requests_max) {
    return with_retry_after(resource_exhausted("this key runs {} requests at once, its limit",
                                               entry_.concurrent_requests_max), 1);
  }
  if (entry_.tokens_per_minute_max > 0) {
    refill(now);
    const auto full = static_cast<double>(entry_.tokens_per_minute_max);
    // A prompt above a whole minute's tokens runs when the bucket is full, and is paid for after.
    const double needed = std::min(static_cast<double>(prompt_tokens), full);
    if (tokens_left_ < needed) {
      const double wait = (needed - tokens_left_) * 60.0 / full;
      return with_retry_after(
          resource_exhausted("this key has used its {} tokens a minute",
                             entry_.tokens_per_minute_max),
          std::max<int64_t>(1, static_cast<int64_t>(std::ceil(wait))));
    }
    tokens_left_ -= static_cast<double>(prompt_tokens);
  }
  ++running_;
  return ok_status();
}

void KeyUse::end(int64_t generated_tokens, Instant now) {
  --running_;
  if (entry_.tokens_per_minute_max > 0) {
    refill(now);
    tokens_left_ -= static_cast<double>(generated_tokens);
  }
}

StatusOr<KeyRing> KeyRing::parse(std::string_view text) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return invalid_argument("line {}: {}", error.source().begin.line, error.description());
  }
  KeyRing ring;
  for (const auto& [name, node] : root) {
    if (name.str() != "key") return invalid_argument("'{}' is not a known name", name.str());
  }
  const toml::array* keys = root["key"].as_array();
  if (keys == nullptr || keys->empty()) return invalid_argument("there is no [[key]]");
  for (size_t i = 0; i < keys->size(); ++i) {
    const toml::table* table = (*keys)[i].as_table();
    if (table == nullptr) return invalid_argument("key[{}] is not a table", i);
    LS_ASSIGN_OR_RETURN(KeyEntry entry, read_key(*table, i));
    for (const auto& other : ring.keys_) {
      if (other->entry().digest == entry.digest) {
        return invalid_argument("key[{}] is given twice", i);
      }
    }
    ring.keys_.push_back(std::make_shared<KeyUse>(std::move(entry)));
  }
  return ring;
}

StatusOr<KeyRing> KeyRing::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return not_found("key file {} can't be read", path);
  auto ring = parse(text.str());
  if (!ring.ok()) return invalid_argument("key file {}: {}", path, message_of(ring.status()));
  return ring;
}

std::shared_ptr<KeyUse> KeyRing::find(std::string_view token) const {
  const auto digest = sha256(as_bytes(token));
  std::shared_ptr<KeyUse> found;
  for (const auto& key : keys_) {
    if (equal_in_constant_time(digest, key->entry().digest)) found = key;
  }
  return found;
}

}  // namespace lineshaft::api
