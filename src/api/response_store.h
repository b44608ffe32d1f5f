// ResponseStore: responses of the Responses dialect that a client asked to keep, for
// previous_response_id and for reading them again. In memory, bounded: the oldest go first. Any
// thread.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"

namespace lineshaft::api {

struct StoredResponse {
  std::string id;
  std::string tenant;  // who may see it
  Json input;          // all items of the dialogue before the response
  Json response;       // with the output
};

class ResponseStore {
 public:
  explicit ResponseStore(size_t bytes_max = size_t{64} << 20, size_t count_max = 4096)
      : bytes_max_(bytes_max), count_max_(count_max) {}

  // One that is larger than the whole store is not kept.
  void put(StoredResponse response);

  // nullptr: never kept, gone, or another tenant's.
  std::shared_ptr<const StoredResponse> find(std::string_view id, std::string_view tenant) const;

  // False: there was none.
  bool erase(std::string_view id, std::string_view tenant);

  size_t bytes() const;

 private:
  struct Entry {
    std::shared_ptr<const StoredResponse> response;
    size_t bytes;
  };
  using Entries = std::list<Entry>;  // the oldest first

  void drop(Entries::iterator entry);

  const size_t bytes_max_;
  const size_t count_max_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_id_;
  size_t bytes_ = 0;
};

}  // namespace lineshaft::api
