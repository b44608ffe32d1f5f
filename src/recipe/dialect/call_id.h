// Ids of tool calls in the form of DeepSeek's API. Knows no clock and no source of chance.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lineshaft::recipe {

// "call_", the index in two digits, "_", "ET_" when the turn reasoned nothing though it could,
// twenty letters and digits made from `random`, and a checksum of four digits.
std::string make_call_id(int32_t index, bool empty_thinking, uint64_t random_high,
                         uint64_t random_low);

// Whether the checksum is right: the id was made by make_call_id or its like.
bool is_made_call_id(std::string_view id);

}  // namespace lineshaft::recipe
