// Hashes: SHA-256 for what names content across machines, xxHash64 for tables inside one process.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lineshaft {

// The first 128 bits of a SHA-256. Equal means equal content, for all that may ever happen here.
struct Hash128 {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;
};

// Incremental SHA-256 (OpenSSL).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const uint8_t> data);
  void update(std::string_view text);
  // Ends the computation; call once.
  std::array<uint8_t, 32> finish();

 private:
  void* context_;
};

std::array<uint8_t, 32> sha256(std::span<const uint8_t> data);
Hash128 hash128(std::span<const uint8_t> data);
std::string to_hex(std::span<const uint8_t> data);
uint64_t xxh64(std::span<const uint8_t> data, uint64_t seed = 0);

}  // namespace lineshaft
