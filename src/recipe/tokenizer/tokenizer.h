// Tokenizer: text -> token ids and back, exactly as the model's makers have it. Built from a model
// file's data or from a Hugging Face tokenizer.json. Adds no BOS or EOS and knows no dialogue.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "core/ids.h"
#include "core/tokenizer_data.h"
#include "core/vocab.h"

namespace lineshaft::recipe {

struct TokenizerParts;

// Immutable after loading; every method may be called by many threads at once.
class Tokenizer {
 public:
  enum class Mode : uint8_t {
    kPlain,    // text of users: never gives a control token, whatever the text spells
    kSpecial,  // every added token that the text spells is taken, control tokens too
  };

  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Total: any bytes give ids. Bytes that are not UTF-8 count as unassigned characters for the
  // pre-tokenizer, are encoded byte by byte, and keep a text from being NFC-normalized. Time is
  // O(n log n) in the bytes of the text (times the longest added token at worst).
  std::vector<TokenId> encode(std::string_view text, Mode mode) const;

  // The tokens' bytes in a row, each maximal ill-formed subpart as one U+FFFD. Control tokens show
  // their name; ids outside the vocabulary show nothing.
  std::string decode(std::span<const TokenId> ids) const;

  // Bytes of one token, valid as long as the tokenizer; empty for ids outside the vocabulary.
  std::string_view token_bytes(TokenId id) const;

  // The added token (control or not) that is spelled so; -1 when there is none.
  TokenId added_token(std::string_view content) const;

  // The first control token that kSpecial takes from text[from…), with the bytes that it takes
  // (white space around it too, where the token says so).
  struct ControlMatch {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = 0;
  };
  std::optional<ControlMatch> find_control(std::string_view text, size_t from) const;

  std::shared_ptr<const Vocab> vocab() const { return vocab_; }

  // Sentences about data that looks broken, for the user to see at start.
  const std::vector<std::string>& warnings() const;

 private:
  struct Impl;
  class Encoder;

  std::shared_ptr<const Vocab> vocab_;
  std::unique_ptr<const Impl> impl_;
};

// From the metadata of a GGUF file. A missing pre-tokenizer name gives a warning and GPT-2's.
// Errors: kUnimplemented for a tokenizer model or pre-tokenizer by its name; kInvalidArgument for
// data that contradicts itself, naming the key.
StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_from_data(TokenizerData data);

// From the text of a tokenizer.json (Hugging Face `tokenizers`): BPE models, byte-level or with
// byte fallback. Errors: kInvalidArgument for what is no such document, naming the field;
// kUnimplemented for a part that is not supported, by its name.
StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::string_view text);

// The same from a file; kNotFound when it can't be read.
StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_from_json_file(const std::string& path);

}  // namespace lineshaft::recipe
