#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>

#include "base/check.h"

namespace lineshaft {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  LS_CHECK(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(std::span<const uint8_t> data) {
  LS_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data.data(), data.size()) == 1);
}

void Sha256::update(std::string_view text) {
  update({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

std::array<uint8_t, 32> Sha256::finish() {
  std::array<uint8_t, 32> digest{};
  unsigned int size = 0;
  LS_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), &size) == 1);
  return digest;
}

std::array<uint8_t, 32> sha256(std::span<const uint8_t> data) {
  Sha256 h;
  h.update(data);
  return h.finish();
}

Hash128 hash128(std::span<const uint8_t> data) {
  Hash128 h;
  const auto digest = sha256(data);
  std::copy_n(digest.begin(), h.bytes.size(), h.bytes.begin());
  return h;
}

std::string to_hex(std::span<const uint8_t> data) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(data.size() * 2);
  for (uint8_t b : data) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

std::string Hash128::hex() const { return to_hex(bytes); }

uint64_t xxh64(std::span<const uint8_t> data, uint64_t seed) {
  return XXH64(data.data(), data.size(), seed);
}

}  // namespace lineshaft
