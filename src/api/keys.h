// Keys: who may ask, as which tenant, how much at once and how much a minute. Reads the key file;
// knows no HTTP. Used on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "base/time.h"

namespace lineshaft::api {

// One key of the file. Tokens themselves are not kept, only their SHA-256.
struct KeyEntry {
  std::array<uint8_t, 32> digest{};
  std::string tenant;
  int32_t concurrent_requests_max = 0;  // 0: no limit
  int64_t tokens_per_minute_max = 0;    // prompt and generated tokens; 0: no limit
  Hash128 cache_salt{};
};

// What one key has in use. Shared by the requests that it runs.
class KeyUse {
 public:
  explicit KeyUse(KeyEntry entry);

  const KeyEntry& entry() const { return entry_; }

  // Takes a place and charges `prompt_tokens`, or says why not: kResourceExhausted with the seconds
  // to wait (error_map.h). Every success wants one end().
  Status begin(int64_t prompt_tokens, Instant now);
  // Charges what was generated and gives the place back.
  void end(int64_t generated_tokens, Instant now);

 private:
  void refill(Instant now);

  const KeyEntry entry_;
  int32_t running_ = 0;
  double tokens_left_;  // may be below zero: answers are charged when they end
  Instant refilled_{};
  bool started_ = false;
};

class KeyRing {
 public:
  // No keys: everybody is served.
  KeyRing() = default;

  // From the text of a TOML file:
  //   [[key]]
  //   token = "..."                # or: sha256 = "64 hex digits of the token's digest"
  //   tenant = "name"              # default: from the digest; requests of a tenant share a cache
  //   concurrent_requests = 8      # default: no limit
  //   tokens_per_minute = 100000   # default: no limit
  //   cache_salt = "words"         # default: the tenant; equal salts share cached prefixes
  // kInvalidArgument naming the line or the key.
  static StatusOr<KeyRing> parse(std::string_view toml);
  // The same from a file; kNotFound when it can't be read.
  static StatusOr<KeyRing> load(const std::string& path);

  bool empty() const { return keys_.empty(); }

  // The key that is this token; nullptr when none is. Takes as long for any token.
  std::shared_ptr<KeyUse> find(std::string_view token) const;

 private:
  std::vector<std::shared_ptr<KeyUse>> keys_;
};

}  // namespace lineshaft::api
