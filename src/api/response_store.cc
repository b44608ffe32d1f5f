#include "api/response_store.h"

#include <utility>

namespace lineshaft::api {
namespace {

// About what the value takes in memory: nodes and the bytes of its strings. Walks with a stack of
// its own: documents are as deep as their parser lets them be.
size_t bytes_of(const Json& root) {
  size_t bytes = 0;
  std::vector<const Json*> left = {&root};
  while (!left.empty()) {
    const Json& value = *left.back();
    left.pop_back();
    bytes += sizeof(Json);
    if (value.is_string()) {
      bytes += sizeof(std::string) + value.get_ref<const std::string&>().size();
    } else if (value.is_array()) {
      for (const Json& item : value) left.push_back(&item);
    } else if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        bytes += sizeof(std::string) + key.size();
        left.push_back(&item);
      }
    }
  }
  return bytes;
}

}  // namespace

void ResponseStore::put(StoredResponse response) {
  const size_t bytes = bytes_of(response.input) + bytes_of(response.response);
  if (bytes > bytes_max_) return;
  const std::string id = response.id;
  auto shared = std::make_shared<const StoredResponse>(std::move(response));
  std::lock_guard lock(mutex_);
  if (const auto old = by_id_.find(id); old != by_id_.end()) drop(old->second);
  entries_.push_back({std::move(shared), bytes});
  by_id_.emplace(id, std::prev(entries_.end()));
  bytes_ += bytes;
  while (bytes_ > bytes_max_ || entries_.size() > count_max_) drop(entries_.begin());
}

std::shared_ptr<const StoredResponse> ResponseStore::find(std::string_view id,
                                                          std::string_view tenant) const {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(std::string(id));
  if (found == by_id_.end() || found->second->response->tenant != tenant) return nullptr;
  return found->second->response;
}

bool ResponseStore::erase(std::string_view id, std::string_view tenant) {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find(std::string(id));
  if (found == by_id_.end() || found->second->response->tenant != tenant) return false;
  drop(found->second);
  return true;
}

size_t ResponseStore::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::drop(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->response->id);
  entries_.erase(entry);
}

}  // namespace lineshaft::api
