#include "support/safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace lineshaft::testing {

Safetensors::Safetensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  LS_CHECK(in.good(), "{} can't be opened", path);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  uint64_t header_bytes = 0;
  LS_CHECK(file.size() >= sizeof header_bytes);
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  LS_CHECK(header_bytes <= file.size() - sizeof header_bytes);
  const auto header = nlohmann::json::parse(file.substr(sizeof header_bytes, header_bytes));
  data_ = file.substr(sizeof header_bytes + header_bytes);
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const auto& offsets = value.at("data_offsets");
    Entry entry{value.at("dtype"), offsets.at(0), offsets.at(1)};
    LS_CHECK(entry.begin <= entry.end && entry.end <= data_.size(), "{}", name);
    entries_[name] = entry;
  }
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

const Safetensors::Entry& Safetensors::entry(const std::string& name) const {
  const auto it = entries_.find(name);
  LS_CHECK(it != entries_.end(), "no tensor {}", name);
  return it->second;
}

std::vector<float> Safetensors::floats(const std::string& name) const {
  const Entry& e = entry(name);
  LS_CHECK(e.dtype == "F32", "{} is {}", name, e.dtype);
  std::vector<float> out((e.end - e.begin) / sizeof(float));
  std::memcpy(out.data(), data_.data() + e.begin, out.size() * sizeof(float));
  return out;
}

std::vector<int32_t> Safetensors::integers(const std::string& name) const {
  const Entry& e = entry(name);
  LS_CHECK(e.dtype == "I32" || e.dtype == "I64", "{} is {}", name, e.dtype);
  const size_t step = e.dtype == "I32" ? 4 : 8;
  std::vector<int32_t> out;
  for (uint64_t at = e.begin; at + step <= e.end; at += step) {
    int64_t value = 0;
    std::memcpy(&value, data_.data() + at, step);
    out.push_back(static_cast<int32_t>(value));
  }
  return out;
}

}  // namespace lineshaft::testing
