#include "recipe/template/case.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "recipe/template/char_kinds.h"

namespace lineshaft::recipe::jinja {
namespace {

enum class Case : uint8_t { kUpper, kLower };

std::string in_ascii_case(std::string_view text, Case to) {
  std::string out(text);
  for (char& c : out) {
    if (to == Case::kUpper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (to == Case::kLower && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string in_case(std::string_view text, Case to) {
  const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return in_ascii_case(text, to);
  if (text.size() > INT32_MAX) return std::string(text);
  auto unicode = icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
  const icu::Locale& root = icu::Locale::getRoot();
  if (to == Case::kUpper) {
    unicode.toUpper(root);
  } else {
    unicode.toLower(root);
  }
  std::string out;
  unicode.toUTF8String(out);
  return out;
}

OriginText map_runs(const OriginText& text, Case to) {
  OriginText out;
  text.each_run([&](std::string_view run, Origin origin) { out.append(in_case(run, to), origin); });
  return out;
}

// Small letters, but capitals where `begins(the character before)` says so; 0 before the first.
template <typename F>
OriginText with_capitals(const OriginText& text, const F& begins) {
  OriginText out;
  uint32_t before = 0;
  text.each_run([&](std::string_view run, Origin origin) {
    for (size_t at = 0; at < run.size();) {
      const CodePoint point = decode_utf8(run.data() + at, run.data() + run.size());
      const std::string_view bytes = run.substr(at, point.length);
      out.append(in_case(bytes, begins(before) ? Case::kUpper : Case::kLower), origin);
      before = point.value;
      at += point.length;
    }
  });
  return out;
}

}  // namespace

OriginText upper_case(const OriginText& text) { return map_runs(text, Case::kUpper); }
OriginText lower_case(const OriginText& text) { return map_runs(text, Case::kLower); }

OriginText title_case(const OriginText& text) {
  return with_capitals(text, [](uint32_t before) {
    return before == 0 || is_space(before) || before == '-' || before == '(' || before == '{' ||
           before == '[' || before == '<';
  });
}

OriginText capital_case(const OriginText& text) {
  return with_capitals(text, [](uint32_t before) { return before == 0; });
}

}  // namespace lineshaft::recipe::jinja
