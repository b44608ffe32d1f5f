// TurnMemory: the tokens that a model really wrote in a turn, put back when a client returns the
// turn. A client writes the JSON of a call anew, and text has more than one tokenization: without
// this the next prompt would leave the cached prefix at every answer. Knows no dialect and no
// template.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "recipe/answer.h"
#include "recipe/chat_format.h"
#include "recipe/conversation.h"
#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

// Bounded: the oldest turns go first. Any thread.
class TurnMemory {
 public:
  TurnMemory(std::shared_ptr<const Tokenizer> tokenizer, size_t bytes_max = size_t{32} << 20)
      : tokenizer_(std::move(tokenizer)), bytes_max_(bytes_max) {}

  // `written` was the model's answer to `prompt`, without the token that ended it.
  void remember(std::span<const TokenId> prompt, std::span<const TokenId> written,
                const Answer& answer);

  // `prompt` is the conversation as the format encodes it. Gives it back with the turns of the
  // assistant as they were written, where they are known: the tokens before one are those that it
  // was an answer to, it reads the same (arguments of calls as JSON), and its control tokens are
  // the same, so that nothing that a client spells becomes one.
  std::vector<TokenId> restore(const Conversation& conversation, const ChatFormat& format,
                               std::vector<TokenId> prompt) const;

  size_t bytes() const;

 private:
  struct Entry {
    std::string key;
    uint64_t prompt_hash = 0;
    size_t prompt_tokens = 0;
    std::vector<TokenId> written;
    // Hash of an encoding that was found to read the same: it is compared once; 0: none yet.
    mutable std::atomic<uint64_t> reads_same = 0;
  };
  using Entries = std::list<std::shared_ptr<const Entry>>;  // the oldest first

  std::vector<std::shared_ptr<const Entry>> find(const std::string& key) const;
  bool splice(const Entry& entry, const Conversation& before, const ChatFormat& format,
              std::vector<TokenId>& prompt) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const size_t bytes_max_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_multimap<std::string, Entries::iterator> by_key_;
  size_t bytes_ = 0;
};

}  // namespace lineshaft::recipe
