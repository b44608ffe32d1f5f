#include "recipe/turn_memory.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "recipe/answer_stream.h"

namespace lineshaft::recipe {
namespace {

using Kind = AnswerEvent::Kind;

// Answers of few words are many: no more than these are tried for one turn.
constexpr size_t kSameKeyMax = 8;

uint64_t hash_of(std::span<const TokenId> tokens) {
  return xxh64({reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size_bytes()});
}

// What a client gives back unchanged: the id of the first call, or else what was said.
std::string key_of(std::string_view call_id, std::string_view content) {
  if (!call_id.empty()) return "call " + std::string(call_id);
  const Hash128 hash =
      hash128({reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  return fmt::format("text {} {}", content.size(), hash.hex());
}

size_t bytes_of(const std::string& key, size_t tokens) {
  return 2 * key.size() + tokens * sizeof(TokenId) + 256;  // nodes of both containers
}

std::vector<TokenId> controls_of(std::span<const TokenId> tokens, const Vocab& vocab) {
  std::vector<TokenId> out;
  for (const TokenId id : tokens) {
    if (vocab.kinds[static_cast<size_t>(id)] == TokenKind::kControl) out.push_back(id);
  }
  return out;
}

// One text for all documents that mean the same: keys in order, numbers by their value.
void append_canonical(std::string& out, const Json& value) {
  if (value.is_object()) {
    std::map<std::string_view, const Json*> members;
    for (const auto& [key, member] : value.items()) members.emplace(key, &member);
    out += '{';
    for (const auto& [key, member] : members) {
      append_json_string(out, key);
      append_canonical(out, *member);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& item : value) {
      append_canonical(out, item);
      out += ',';
    }
    out += ']';
  } else if (value.is_number_float()) {
    const auto number = value.get<double>();
    const bool whole = std::abs(number) < 9e15 && number == std::floor(number);
    out += whole ? std::to_string(static_cast<int64_t>(number)) : write_json(value);
  } else {
    out += write_json(value);
  }
}

// What tokens say, in events whose neighbours are joined; arguments in one form of JSON.
std::vector<AnswerEvent> read(std::span<const TokenId> tokens, const Conversation& before,
                              const ChatFormat& format,
                              const std::shared_ptr<const Vocab>& vocab) {
  const auto stream = format.parser
                          ? make_parsed_stream(vocab, format.parser(before, {}), false)
                          : make_content_stream(vocab, {}, false);
  Answer answer;
  const auto take = [&](const AnswerDelta& delta) {
    for (const AnswerEvent& event : delta.events) answer.add(event);
  };
  for (const TokenId id : tokens) {
    TokenEvent event;
    event.token = id;
    take(stream->push(std::move(event)));
  }
  take(stream->finish());
  JsonLimits limits;
  limits.last_key_wins = true;
  for (AnswerEvent& event : answer.events) {
    if (event.kind != Kind::kArguments) continue;
    const auto json = parse_json(event.text, limits);
    if (!json.ok()) continue;
    event.text.clear();
    append_canonical(event.text, *json);
  }
  return std::move(answer.events);
}

}  // namespace

void TurnMemory::remember(std::span<const TokenId> prompt, std::span<const TokenId> written,
                          const Answer& answer) {
  const std::string content = answer.text_of(Kind::kContent);
  if (written.empty() || (answer.call_ids.empty() && content.empty())) return;
  auto entry = std::make_shared<Entry>();
  entry->key = key_of(answer.call_ids.empty() ? "" : answer.call_ids.front(), content);
  entry->prompt_hash = hash_of(prompt);
  entry->prompt_tokens = prompt.size();
  entry->written.assign(written.begin(), written.end());
  const size_t bytes = bytes_of(entry->key, written.size());
  if (bytes > bytes_max_) return;
  std::lock_guard lock(mutex_);
  entries_.push_back(entry);
  by_key_.emplace(entry->key, std::prev(entries_.end()));
  bytes_ += bytes;
  while (bytes_ > bytes_max_) {
    const Entry& oldest = *entries_.front();
    const auto [first, last] = by_key_.equal_range(oldest.key);
    by_key_.erase(std::find_if(first, last,
                               [&](const auto& of) { return of.second == entries_.begin(); }));
    bytes_ -= bytes_of(oldest.key, oldest.written.size());
    entries_.pop_front();
  }
}

std::vector<std::shared_ptr<const TurnMemory::Entry>> TurnMemory::find(
    const std::string& key) const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Entry>> out;
  const auto [first, last] = by_key_.equal_range(key);
  for (auto it = first; it != last && out.size() < kSameKeyMax; ++it) out.push_back(*it->second);
  return out;
}

bool TurnMemory::splice(const Entry& entry, const Conversation& before, const ChatFormat& format,
                        std::vector<TokenId>& prompt) const {
  if (prompt.size() <= entry.prompt_tokens) return false;
  const std::span<const TokenId> all(prompt);
  if (hash_of(all.first(entry.prompt_tokens)) != entry.prompt_hash) return false;
  // Only the format makes control tokens, so the first that ends a turn ends this one.
  const auto vocab = tokenizer_->vocab();
  const auto& ends = vocab->end_of_generation;
  const auto begin = prompt.begin() + static_cast<ptrdiff_t>(entry.prompt_tokens);
  const auto end = std::find_if(begin, prompt.end(), [&](TokenId id) {
    return std::binary_search(ends.begin(), ends.end(), id);
  });
  if (end == prompt.end()) return false;
  const std::span<const TokenId> encoded(begin, end);
  if (std::ranges::equal(encoded, entry.written)) return true;
  const uint64_t encoded_hash = hash_of(encoded);
  if (entry.reads_same.load() != encoded_hash) {
    if (controls_of(encoded, *vocab) != controls_of(entry.written, *vocab)) return false;
    if (read(encoded, before, format, vocab) != read(entry.written, before, format, vocab)) {
      return false;
    }
    entry.reads_same.store(encoded_hash);
  }
  const auto at = prompt.erase(begin, end);
  prompt.insert(at, entry.written.begin(), entry.written.end());
  return true;
}

std::vector<TokenId> TurnMemory::restore(const Conversation& conversation,
                                         const ChatFormat& format,
                                         std::vector<TokenId> prompt) const {
  // How an answer of this dialogue begins; its turns don't matter for that, but for a last one that
  // goes on.
  Conversation before = conversation;
  before.turns.clear();
  for (const Turn& turn : conversation.turns) {
    if (turn.role != Role::kAssistant || turn.unfinished) continue;
    const std::string key =
        key_of(turn.calls.empty() ? "" : turn.calls.front().id, turn.content);
    for (const auto& entry : find(key)) {
      if (splice(*entry, before, format, prompt)) break;
    }
  }
  return prompt;
}

size_t TurnMemory::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace lineshaft::recipe
