// Pre-tokenizers: text cut into the pieces that byte-pair merges never cross.
// Hand-written scanners for known regular expressions; knows no vocabulary.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lineshaft::recipe {

// One splitting step: the end of the piece that begins at p (p < end, result in (p, end]).
// Depends on the text in [p, end) only. Bytes that are no UTF-8 count as unassigned characters.
using Scan = const char* (*)(const char* p, const char* end);

class PreTokenizer {
 public:
  // By the name that a GGUF file gives (tokenizer.ggml.pre); kUnimplemented for another name.
  static StatusOr<PreTokenizer> from_gguf_name(std::string_view name);

  // Adds a step that a tokenizer.json states as a Split with behavior Isolated. Each step cuts the
  // pieces of the one before. kUnimplemented for a regular expression that has no scanner.
  Status add_regex(std::string_view regex);
  void add_gpt2();                   // ByteLevel with use_regex
  void add_digits(bool individual);  // Digits

  // For SentencePiece vocabularies: cut before each U+2581 (the mark for a space) unless the byte
  // before it is in `glued`, that is, unless a token may reach across.
  void set_bar_split(const std::array<bool, 256>& glued);

  // Appends the end offset of each piece, ascending; the last one is text.size().
  void split(std::string_view text, std::vector<size_t>& ends) const;

  // Names of the steps in order, for fingerprints.
  std::string_view name() const { return name_; }

 private:
  void add(Scan scan, std::string_view name);
  void split_step(size_t step, const char* base, const char* p, const char* end,
                  std::vector<size_t>& ends) const;

  std::vector<Scan> steps_;
  std::string name_;
  bool bar_split_ = false;
  std::array<bool, 256> glued_{};
};

}  // namespace lineshaft::recipe
