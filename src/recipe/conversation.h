// Conversation: a dialogue as every dialect and every model's encoding sees it. Plain data; knows
// neither JSON nor tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lineshaft::recipe {

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool };

struct Turn {
  Role role = Role::kUser;
  std::string content;  // UTF-8 text, whatever it spells
};

struct Conversation {
  std::vector<Turn> turns;
};

}  // namespace lineshaft::recipe
