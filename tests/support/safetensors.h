// Reads the safetensors files of golden data. For tests: a broken file ends the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lineshaft::testing {

class Safetensors {
 public:
  explicit Safetensors(const std::string& path);

  bool has(const std::string& name) const { return entries_.contains(name); }
  std::vector<std::string> names() const;  // ascending
  std::vector<float> floats(const std::string& name) const;      // of F32
  std::vector<int32_t> integers(const std::string& name) const;  // of I32 or I64

 private:
  struct Entry {
    std::string dtype;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  const Entry& entry(const std::string& name) const;

  std::string data_;
  std::map<std::string, Entry> entries_;
};

}  // namespace lineshaft::testing
