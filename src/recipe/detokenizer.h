// Detokenizer: the ids of one growing answer -> text, never half a code point at a time. One for
// each choice of each request, shared by streaming and whole replies. Knows no stop strings.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/ids.h"
#include "core/vocab.h"

namespace lineshaft::recipe {

class Detokenizer {
 public:
  enum class ControlTokens : uint8_t { kShow, kHide };

  // kShow writes control tokens by their names, kHide leaves them out.
  explicit Detokenizer(std::shared_ptr<const Vocab> vocab,
                       ControlTokens control = ControlTokens::kShow)
      : vocab_(std::move(vocab)), control_(control) {}

  // The text that is certain after this token: well-formed UTF-8, each maximal ill-formed subpart
  // as one U+FFFD (WHATWG Encoding, UTF-8 decoder). The beginning of a code point that the next
  // token may complete (three bytes at most) is held back. The view lasts until the next call.
  // Ids outside the vocabulary give nothing.
  std::string_view push(TokenId token);

  // What is held back, as one U+FFFD; empty when nothing is. The answer has ended.
  std::string_view finish();

 private:
  std::shared_ptr<const Vocab> vocab_;
  ControlTokens control_;
  std::string held_;   // an incomplete but so far well-formed sequence
  std::string ready_;
};

}  // namespace lineshaft::recipe
