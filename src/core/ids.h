// Identities: distinct integer types, so that one can't be passed for another.
#pragma once

#include <compare>
#include <cstdint>

namespace lineshaft {

template <typename Tag, typename Rep>
struct Id {
  Rep value{};
  constexpr auto operator<=>(const Id&) const = default;
};

using RequestId = Id<struct RequestTag, uint64_t>;  // a user's order; rises in order of arrival
using SeqId = Id<struct SeqTag, uint64_t>;          // one running choice of a request; never reused
using StepId = Id<struct StepTag, uint64_t>;        // rises by one a step
using BlockId = Id<struct BlockTag, int32_t>;       // index into the worker's KV arena
using TokenId = int32_t;                            // index into the model's vocabulary

}  // namespace lineshaft
