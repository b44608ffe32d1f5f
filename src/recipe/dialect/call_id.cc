#include "recipe/dialect/call_id.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace lineshaft::recipe {
namespace {

constexpr std::string_view kLetters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr size_t kChecksumDigits = 4;

std::string checksum(std::string_view id) {
  std::string bare;
  for (const char c : id) {
    if (c != '_') bare.push_back(c);
  }
  return fmt::format("{:04}", XXH3_64bits(bare.data(), bare.size()) % 10000);
}

}  // namespace

std::string make_call_id(int32_t index, bool empty_thinking, uint64_t random_high,
                         uint64_t random_low) {
  std::string id = fmt::format("call_{:02}_{}", index, empty_thinking ? "ET_" : "");
  for (uint64_t random : {random_high, random_low}) {
    for (int i = 0; i < 10; ++i) {
      id.push_back(kLetters[random % kLetters.size()]);
      random /= kLetters.size();
    }
  }
  return id + checksum(id);
}

bool is_made_call_id(std::string_view id) {
  if (!id.starts_with("call_") || id.size() < kChecksumDigits) return false;
  return id.substr(id.size() - kChecksumDigits) ==
         checksum(id.substr(0, id.size() - kChecksumDigits));
}

}  // namespace lineshaft::recipe
