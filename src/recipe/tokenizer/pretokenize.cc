#include "recipe/tokenizer/pretokenize.h"

#include <algorithm>
#include <iterator>

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

// The letters of DeepSeek LLM's first step: cased letters, in the ranges that its makers list.
struct Range {
  uint32_t first;
  uint32_t last;
};
constexpr Range kCasedLetters[] = {
    {0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x1ba},
    {0x1bc, 0x1bf}, {0x1c4, 0x293}, {0x295, 0x2af}, {0x370, 0x373}, {0x376, 0x376},
    {0x377, 0x377}, {0x37b, 0x37d}, {0x37f, 0x37f}, {0x386, 0x386}, {0x388, 0x38a},
    {0x38c, 0x38c}, {0x38e, 0x3a1}, {0x3a3, 0x3f5}, {0x3f7, 0x481}, {0x48a, 0x52f},
    {0x531, 0x556}, {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd}, {0x1c90, 0x1cba},
    {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b}, {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15},
    {0x1f18, 0x1f1d}, {0x1f20, 0x1f45}, {0x1f48, 0x1f4d}, {0x1f50, 0x1f57}, {0x1f59, 0x1f59},
    {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4}, {0x1fb6, 0x1fbc},
    {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107},
    {0x210a, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126},
    {0x2128, 0x2128}, {0x212a, 0x212d}, {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f},
    {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2183}, {0x2184, 0x2184}, {0x2c00, 0x2c7b},
    {0x2c7e, 0x2ce4}, {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf2}, {0x2cf3, 0x2cf3}, {0xa640, 0xa66d},
    {0xa680, 0xa69b}, {0xa722, 0xa76f}, {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf},
    {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f},
    {0x104b0, 0x104d3}, {0x104d8, 0x104fb}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2},
    {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};

bool is_deepseek_llm_letter(uint32_t c) {
  if (c < 0x80) return is_ascii_letter(static_cast<char>(c));
  const auto* range = std::upper_bound(std::begin(kCasedLetters), std::end(kCasedLetters), c,
                                       [](uint32_t v, const Range& r) { return v < r.first; });
  return c <= std::prev(range)->last;  // the first range begins below 0x80
}

// [!-/:-~！-／：-～‘-‟　-。], which has letters too.
bool is_deepseek_llm_punctuation(uint32_t c) {
  return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x7e) || (c >= 0xff01 && c <= 0xff0f) ||
         (c >= 0xff1a && c <= 0xff5e) || (c >= 0x2018 && c <= 0x201f) ||
         (c >= 0x3000 && c <= 0x3002);
}

bool is_letter(uint32_t c) { return CharClassTable::get().of(c) & kLetter; }
bool is_punctuation(uint32_t c) { return CharClassTable::get().of(c) & kPunctuation; }

// [一-龥ࠀ-一가-퟿]
bool is_deepseek_llm_cjk(uint32_t c) {
  return (c >= 0x800 && c <= 0x9fa5) || (c >= 0xac00 && c <= 0xd7ff);
}

using IsMember = bool (*)(uint32_t code_point);

// \s?[members]+ at p (with kSpaced, else [members]+); p when it doesn't match there.
template <IsMember kIsMember, bool kSpaced>
const char* match_run(const char* p, const char* end) {
  CodePoint c = decode_utf8(p, end);
  const char* q = p + c.length;
  if (!kIsMember(c.value)) {
    if (!kSpaced || q == end || !(CharClassTable::get().of(c.value) & kSpace)) return p;
    c = decode_utf8(q, end);
    if (!kIsMember(c.value)) return p;
    q += c.length;
  }
  while (q < end && kIsMember((c = decode_utf8(q, end)).value)) q += c.length;
  return q;
}

// match_run, isolated.
template <IsMember kIsMember, bool kSpaced>
const char* scan_runs(const char* p, const char* end) {
  const char* q = match_run<kIsMember, kSpaced>(p, end);
  if (q != p) return q;
  do {
    p += decode_utf8(p, end).length;
  } while (p < end && match_run<kIsMember, kSpaced>(p, end) == p);
  return p;
}

// [\r\n], isolated.
const char* scan_newlines(const char* p, const char* end) {
  const auto is_newline = [](char c) { return c == '\r' || c == '\n'; };
  return is_newline(*p) ? p + 1 : std::find_if(p, end, is_newline);
}

// \s+$, isolated, in text without newlines.
const char* scan_trailing_space(const char* p, const char* end) {
  const Cursor cursor(end);
  const char* tail = p;
  for (const char* q = p; q < end;) {
    const Char c = cursor.at(q);
    q += c.length;
    if (!(c.classes & kSpace)) tail = q;
  }
  return tail == p ? end : tail;
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
  } else if (name == "deepseek-llm") {
    pre.add(scan_newlines, "newlines");
    pre.add(scan_runs<is_deepseek_llm_letter, true>, "cased-letters");
    pre.add(scan_runs<is_deepseek_llm_punctuation, true>, "deepseek-llm-punctuation");
    pre.add(scan_trailing_space, "trailing-space");
    pre.add(scan_runs<is_deepseek_llm_cjk, false>, "deepseek-llm-cjk");
    pre.add_digits(true);
  } else if (name == "deepseek-coder") {
    pre.add(scan_newlines, "newlines");
    pre.add(scan_runs<is_letter, true>, "letters");
    pre.add(scan_runs<is_punctuation, true>, "punctuation");
    pre.add(scan_runs<is_deepseek_llm_cjk, false>, "deepseek-llm-cjk");
    pre.add_digits(true);
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
