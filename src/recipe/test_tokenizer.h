// A small byte-level tokenizer for tests: ids 0 to 255 are the bytes, then a few words, then
// control tokens. Not a model's.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "recipe/tokenizer/tokenizer.h"

namespace lineshaft::recipe {

inline constexpr TokenId kTestEnd = 258;       // <|endoftext|>
inline constexpr TokenId kTestImStart = 259;   // <|im_start|>
inline constexpr TokenId kTestImEnd = 260;     // <|im_end|>
inline constexpr int32_t kTestVocab = 261;

// GPT-2's printable stand-in for each byte (bytes_to_unicode of its encoder.py), as UTF-8.
inline std::vector<std::string> printable_bytes() {
  std::vector<std::string> out(256);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool own = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int point = own ? byte : next++;
    if (point < 0x80) {
      out[byte] = std::string(1, static_cast<char>(point));
    } else {
      out[byte] = {static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 63))};
    }
  }
  return out;
}

// `more`: further control tokens, from kTestVocab on.
inline std::shared_ptr<const Tokenizer> test_tokenizer(const std::vector<std::string>& more = {}) {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  data.tokens = printable_bytes();
  data.token_types.assign(256, 1);
  for (const char* word : {"he", "th"}) {
    data.tokens.push_back(word);
    data.token_types.push_back(1);
  }
  data.merges = {"h e", "t h"};
  for (const char* name : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    data.tokens.push_back(name);
    data.token_types.push_back(3);
  }
  for (const std::string& name : more) {
    data.tokens.push_back(name);
    data.token_types.push_back(3);
  }
  data.bos = kTestEnd;
  data.eos = kTestImEnd;
  auto tokenizer = tokenizer_from_data(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

}  // namespace lineshaft::recipe
