#include "recipe/tokenizer/pretokenize.h"

#include <cstring>

#include "recipe/tokenizer/char_class.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

struct Char {
  uint8_t classes = 0;
  uint32_t length = 0;  // 0: the end of the text
};

class Cursor {
 public:
  explicit Cursor(const char* end) : table_(CharClassTable::get()), end_(end) {}

  Char at(const char* p) const {
    if (p >= end_) return {};
    const auto byte = static_cast<uint8_t>(*p);
    if (byte < 0x80) return {table_.of_ascii(byte), 1};
    const CodePoint c = decode_utf8(p, end_);
    return {table_.of(c.value), c.length};
  }

  // The end of the run at p of characters with one of `classes`.
  const char* run(const char* p, uint8_t classes) const {
    for (Char c = at(p); c.length != 0 && (c.classes & classes); c = at(p)) p += c.length;
    return p;
  }

  // The end of the run at p of characters with none of `classes`.
  const char* run_without(const char* p, uint8_t classes) const {
    for (Char c = at(p); c.length != 0 && !(c.classes & classes); c = at(p)) p += c.length;
    return p;
  }

  bool is(const char* p, char byte) const { return p < end_ && *p == byte; }
  bool is_newline(const char* p) const { return is(p, '\r') || is(p, '\n'); }

  const char* run_newlines(const char* p) const {
    while (is_newline(p)) ++p;
    return p;
  }

 private:
  const CharClassTable& table_;
  const char* end_;
};

// \s+(?!\S)|\s+ at a whitespace character: the run without its last character when something
// follows the run, unless that leaves nothing.
const char* scan_space(const Cursor& cursor, const char* p, const char* end) {
  const char* last = p;
  const char* q = p;
  for (Char c = cursor.at(q); c.length != 0 && (c.classes & kSpace); c = cursor.at(q)) {
    last = q;
    q += c.length;
  }
  return q == end || last == p ? q : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at a whitespace character.
const char* scan_space_newlines(const Cursor& cursor, const char* p, const char* end) {
  const char* after_newline = nullptr;
  const char* last = p;
  const char* q = p;
  for (Char c = cursor.at(q); c.length != 0 && (c.classes & kSpace); c = cursor.at(q)) {
    if (cursor.is_newline(q)) after_newline = q + 1;
    last = q;
    q += c.length;
  }
  if (after_newline != nullptr) return after_newline;
  return q == end || last == p ? q : last;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe; p when none matches.
const char* scan_contraction(const char* p, const char* end, bool any_case) {
  if (end - p < 2) return p;
  const char a = any_case ? lower(p[1]) : p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (end - p < 3) return p;
  // The only letter outside ASCII whose simple case folding is one of these: U+017F, long s.
  if (any_case && p[1] == '\xc5' && p[2] == '\xbf') return p + 3;
  const char b = any_case ? lower(p[2]) : p[2];
  const bool pair = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return pair ? p + 3 : p;
}

// GPT-2 (Radford et al. 2019, encoder.py):
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
const char* scan_gpt2(const char* p, const char* end) {
  const Cursor cursor(end);
  if (*p == '\'') {
    const char* q = scan_contraction(p, end, false);
    if (q != p) return q;
  }
  const char* word = p + (*p == ' ' ? 1 : 0);
  const Char c = cursor.at(word);
  if (c.classes & kLetter) return cursor.run(word + c.length, kLetter);
  if (c.classes & kNumber) return cursor.run(word + c.length, kNumber);
  if (c.length != 0 && !(c.classes & kSpace)) {
    return cursor.run_without(word + c.length, kSpace | kLetter | kNumber);
  }
  return scan_space(cursor, p, end);
}

// Qwen2 and Llama 3 differ in the length of digit runs only:
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,D}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
template <int kDigitsMax>
const char* scan_qwen2_llama3(const char* p, const char* end) {
  const Cursor cursor(end);
  if (*p == '\'') {
    const char* q = scan_contraction(p, end, true);
    if (q != p) return q;
  }
  const Char c = cursor.at(p);
  if (c.classes & kLetter) return cursor.run(p + c.length, kLetter);
  const char* next = p + c.length;
  if (c.classes & kNumber) {
    for (int i = 1; i < kDigitsMax; ++i) {
      const Char digit = cursor.at(next);
      if (!(digit.classes & kNumber)) break;
      next += digit.length;
    }
    return next;
  }
  const Char d = cursor.at(next);
  if ((d.classes & kLetter) && !cursor.is_newline(p)) return cursor.run(next, kLetter);
  constexpr uint8_t kWord = kSpace | kLetter | kNumber;
  const bool spaced = *p == ' ' && d.length != 0 && !(d.classes & kWord);
  if (spaced || !(c.classes & kSpace)) {
    return cursor.run_newlines(cursor.run_without(next, kWord));
  }
  return scan_space_newlines(cursor, p, end);
}

// \p{N}{1,D}, isolated; D = 0: any length.
template <int kDigitsMax>
const char* scan_numbers(const char* p, const char* end) {
  const Cursor cursor(end);
  const Char c = cursor.at(p);
  if (!(c.classes & kNumber)) return cursor.run_without(p, kNumber);
  if (kDigitsMax == 0) return cursor.run(p, kNumber);
  p += c.length;
  for (int i = 1; i < kDigitsMax; ++i) {
    const Char digit = cursor.at(p);
    if (!(digit.classes & kNumber)) break;
    p += digit.length;
  }
  return p;
}

// The Digits pre-tokenizer.
template <bool kIndividual>
const char* scan_digits(const char* p, const char* end) {
  const Cursor cursor(end);
  const Char c = cursor.at(p);
  if (!(c.classes & kNumeric)) return cursor.run_without(p, kNumeric);
  return kIndividual ? p + c.length : cursor.run(p, kNumeric);
}

// [一-龥぀-ゟ゠-ヿ]+, isolated.
const char* scan_deepseek_cjk(const char* p, const char* end) {
  const auto is_cjk = [end](const char* q, uint32_t& length) {
    const CodePoint c = decode_utf8(q, end);
    length = c.length;
    return (c.value >= 0x4e00 && c.value <= 0x9fa5) || (c.value >= 0x3040 && c.value <= 0x30ff);
  };
  uint32_t length = 0;
  const bool kind = is_cjk(p, length);
  for (p += length; p < end && is_cjk(p, length) == kind; p += length) {
  }
  return p;
}

bool is_ascii_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool is_ascii_punctuation(char c) {
  return c > ' ' && c < 0x7f && !is_ascii_letter(c) && !(c >= '0' && c <= '9');
}

// The match at p, or p when none begins there:
// [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
const char* match_deepseek(const Cursor& cursor, const char* p, const char* end) {
  if (is_ascii_punctuation(*p) && end - p > 1 && is_ascii_letter(p[1])) {
    for (++p; p < end && is_ascii_letter(*p); ++p) {
    }
    return p;
  }
  constexpr uint8_t kWord = kLetter | kMark;
  constexpr uint8_t kSigns = kPunctuation | kSymbol;
  const Char c = cursor.at(p);
  const char* next = p + c.length;
  if (c.classes & kWord) return cursor.run(next, kWord);
  const Char d = cursor.at(next);
  if (!(c.classes & kSigns) && !cursor.is_newline(p) && (d.classes & kWord)) {
    return cursor.run(next, kWord);
  }
  if ((c.classes & kSigns) || (*p == ' ' && (d.classes & kSigns))) {
    return cursor.run_newlines(cursor.run(next, kSigns));
  }
  return (c.classes & kSpace) ? scan_space_newlines(cursor, p, end) : p;
}

// match_deepseek, isolated: characters that begin no match make a piece up to the next match.
const char* scan_deepseek(const char* p, const char* end) {
  const Cursor cursor(end);
  const char* q = match_deepseek(cursor, p, end);
  if (q != p) return q;
  do {
    p += cursor.at(p).length;
  } while (p < end && match_deepseek(cursor, p, end) == p);
  return p;
}

struct KnownRegex {
  std::string_view regex;
  Scan scan;
  std::string_view name;
};

// Spelled as in the released tokenizer.json files.
constexpr KnownRegex kKnownRegexes[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", scan_gpt2,
     "gpt-2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_qwen2_llama3<1>, "qwen2"},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
     R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_qwen2_llama3<3>, "llama-bpe"},
    {R"(\p{N}{1,3})", scan_numbers<3>, "numbers-3"},
    {R"(\p{N})", scan_numbers<1>, "numbers-1"},
    {R"(\p{N}+)", scan_numbers<0>, "numbers"},
    {"[一-龥぀-ゟ゠-ヿ]+", scan_deepseek_cjk, "deepseek-cjk"},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     scan_deepseek, "deepseek"},
};

constexpr std::string_view kBarMark = "\u2581";

}  // namespace

StatusOr<PreTokenizer> PreTokenizer::from_gguf_name(std::string_view name) {
  PreTokenizer pre;
  if (name == "gpt-2" || name == "gpt2") {
    pre.add_gpt2();
  } else if (name == "smollm") {
    pre.add_digits(true);
    pre.add_gpt2();
  } else if (name == "qwen2" || name == "deepseek-r1-qwen") {
    pre.add(scan_qwen2_llama3<1>, "qwen2");
  } else if (name == "llama-bpe" || name == "llama3" || name == "llama-v3") {
    pre.add(scan_qwen2_llama3<3>, "llama-bpe");
  } else if (name == "deepseek-v3") {
    pre.add(scan_numbers<3>, "numbers-3");
    pre.add(scan_deepseek_cjk, "deepseek-cjk");
    pre.add(scan_deepseek, "deepseek");
  } else {
    return unimplemented("tokenizer.ggml.pre: the pre-tokenizer '{}' is not supported", name);
  }
  return pre;
}

Status PreTokenizer::add_regex(std::string_view regex) {
  for (const KnownRegex& known : kKnownRegexes) {
    if (known.regex == regex) {
      add(known.scan, known.name);
      return ok_status();
    }
  }
  return unimplemented("pre_tokenizer: the regular expression '{}' is not supported", regex);
}

void PreTokenizer::add_gpt2() { add(scan_gpt2, "gpt-2"); }

void PreTokenizer::add_digits(bool individual) {
  individual ? add(scan_digits<true>, "digits-1") : add(scan_digits<false>, "digits");
}

void PreTokenizer::set_bar_split(const std::array<bool, 256>& glued) {
  bar_split_ = true;
  glued_ = glued;
}

void PreTokenizer::add(Scan scan, std::string_view name) {
  steps_.push_back(scan);
  if (!name_.empty()) name_ += '+';
  name_ += name;
}

void PreTokenizer::split_step(size_t step, const char* base, const char* p, const char* end,
                              std::vector<size_t>& ends) const {
  const Scan scan = steps_[step];
  const bool last = step + 1 == steps_.size();
  while (p < end) {
    const char* q = scan(p, end);
    if (last) {
      ends.push_back(static_cast<size_t>(q - base));
    } else {
      split_step(step + 1, base, p, q, ends);
    }
    p = q;
  }
}

void PreTokenizer::split(std::string_view text, std::vector<size_t>& ends) const {
  if (text.empty()) return;
  if (!steps_.empty()) {
    split_step(0, text.data(), text.data(), text.data() + text.size(), ends);
    return;
  }
  if (bar_split_) {
    for (size_t at = text.find(kBarMark, 1); at != std::string_view::npos;
         at = text.find(kBarMark, at + kBarMark.size())) {
      if (!glued_[static_cast<uint8_t>(text[at - 1])]) ends.push_back(at);
    }
  }
  ends.push_back(text.size());
}

}  // namespace lineshaft::recipe
