#include "decoding/constraint/formats.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/check.h"
#include "decoding/constraint/regex.h"

namespace lineshaft::decoding {
namespace {

std::string date() {
  const std::string leap_year =
      "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
         "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap_year + "-02-29)";
}

// A leap second is 23:59:60 in UTC, so hour and minute depend on the offset.
std::string time() {
  const std::string fraction = "(?:\\.[0-9]+)?";
  std::string leap = "23:59:60" + fraction + "[Zz]";
  for (int offset = -(23 * 60 + 45); offset <= 23 * 60 + 45; offset += 15) {
    const int local = (23 * 60 + 59 + offset + 2 * 1440) % 1440;
    const int size = offset < 0 ? -offset : offset;
    leap += fmt::format("|{:02}:{:02}:60{}{}{:02}:{:02}", local / 60, local % 60, fraction,
                        offset < 0 ? "-" : offset > 0 ? "\\+" : "[-+]", size / 60, size % 60);
  }
  return "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]" + fraction +
         "(?:[Zz]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])|" + leap + ")";
}

std::string duration() {
  const std::string n = "[0-9]+";
  const std::string clock = "(?:T(?:" + n + "H(?:" + n + "M(?:" + n + "S)?)?|" + n + "M(?:" + n +
                            "S)?|" + n + "S))";
  const std::string days = "(?:" + n + "D|" + n + "M(?:" + n + "D)?|" + n + "Y(?:" + n + "M(?:" +
                           n + "D)?)?)";
  return "P(?:" + days + clock + "?|" + clock + "|" + n + "W)";
}

std::string ipv4() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return "(?:" + octet + "\\.){3}" + octet;
}

std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  const std::string tail = "(?:" + h + ":" + h + "|" + ipv4() + ")";
  std::string out = "(?:(?:" + h + ":){6}" + tail + "|::(?:" + h + ":){5}" + tail;
  for (int before = 1; before <= 5; ++before) {
    out += fmt::format("|(?:(?:{0}:){{0,{1}}}{0})?::(?:{0}:){{{2}}}{3}", h, before - 1, 5 - before,
                       tail);
  }
  out += fmt::format("|(?:(?:{0}:){{0,5}}{0})?::{0}|(?:(?:{0}:){{0,6}}{0})?::)", h);
  return out;
}

// A label has no hyphens at both its third and fourth place: A-labels (xn--) need more than an
// automaton. The whole is at most 253 long, which the caller adds.
std::string hostname() {
  const std::string e = "[A-Za-z0-9]";
  const std::string i = "[A-Za-z0-9-]";
  const std::string label = "(?:" + e + "|" + e + e + "|" + e + i + e + "|" + e + i + i + e + "|" +
                            e + i + "(?:" + e + i + "|-" + e + ")" + i + "{0,58}" + e + ")";
  return label + "(?:\\." + label + ")*";
}

std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string local = "(?:" + atom + "(?:\\." + atom +
                            ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
  return local + "@(?:" + label + "(?:\\." + label + ")*|\\[(?:" + ipv4() + "|IPv6:" + ipv6() +
         ")\\])";
}

// RFC 3986; `more` are further characters that need no escape (RFC 3987).
std::string uri(const std::string& more, bool reference) {
  const std::string pct = "%[0-9A-Fa-f]{2}";
  const std::string plain = "A-Za-z0-9._~!$&'()*+,;=" + more;
  const std::string pchar = "(?:[" + plain + ":@-]|" + pct + ")";
  const std::string user = "(?:(?:[" + plain + ":-]|" + pct + ")*@)?";
  const std::string name = "(?:[" + plain + "-]|" + pct + ")*";
  const std::string literal =
      "\\[(?:" + ipv6() + "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]";
  const std::string authority = user + "(?:" + literal + "|" + name + ")(?::[0-9]*)?";
  const std::string rooted = "/(?:" + pchar + "+(?:/" + pchar + "*)*)?";
  const std::string rootless = pchar + "+(?:/" + pchar + "*)*";
  const std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  const std::string network = "//" + authority + "(?:/" + pchar + "*)*";
  const std::string absolute =
      "[A-Za-z][A-Za-z0-9+.-]*:(?:" + network + "|" + rooted + "|" + rootless + ")?" + tail;
  if (!reference) return absolute;
  const std::string first = "(?:[" + plain + "@-]|" + pct + ")+";  // no colon
  return "(?:" + absolute + "|(?:" + network + "|" + rooted + "|" + first + "(?:/" + pchar +
         "*)*)?" + tail + ")";
}

std::string uri_template() {
  const std::string character = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})";
  const std::string variable =
      character + "(?:\\.?" + character + ")*(?::[1-9][0-9]{0,3}|\\*)?";
  return "(?:[!#$&(-;=?-\\[\\]_a-z~'\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef"
         "\\u{10000}-\\u{1fffd}]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" +
         variable + "(?:," + variable + ")*\\})*";
}

// Expressions without back-references and look-around, whose groups nest twice at most.
std::string regex() {
  const std::string escape =
      "\\\\(?:[dDwWsStnvfr]|[\\^$\\\\.*+?()\\[\\]{}|/-]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})";
  const std::string plain = "[^\\^$\\\\.*+?()\\[\\]{}|]|\\.|" + escape;
  const std::string set = "\\[\\^?(?:[^\\]\\\\-]|" + escape + ")*\\]";
  const std::string quantity =
      "(?:(?:[*+?]|\\{(?:0|[1-9][0-9]{0,2})\\}|\\{[0-9],(?:[1-9][0-9]{1,2})?\\})"
      "\\?" "?)?";
  std::string inner = "(?:(?:" + plain + "|" + set + ")" + quantity + "|[\\^$])*";
  for (int depth = 0; depth < 2; ++depth) {
    const std::string alternatives = inner + "(?:\\|" + inner + ")*";
    inner = "(?:(?:" + plain + "|" + set + "|\\((?:\\?:)?" + alternatives + "\\))" + quantity +
            "|[\\^$])*";
  }
  return inner + "(?:\\|" + inner + ")*";
}

const std::map<std::string, std::function<std::string()>, std::less<>>& expressions() {
  static const std::map<std::string, std::function<std::string()>, std::less<>> all{
      {"date", date},
      {"time", time},
      {"date-time", [] { return date() + "[Tt]" + time(); }},
      {"duration", duration},
      {"email", email},
      {"hostname", hostname},
      {"ipv4", ipv4},
      {"ipv6", ipv6},
      {"uri", [] { return uri("", false); }},
      {"uri-reference", [] { return uri("", true); }},
      {"iri", [] { return uri("\\u00a0-\\ud7ff\\uf900-\\u{1fffd}", false); }},
      {"iri-reference", [] { return uri("\\u00a0-\\ud7ff\\uf900-\\u{1fffd}", true); }},
      {"uri-template", uri_template},
      {"uuid", [] {
         return std::string("[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}");
       }},
      {"json-pointer", [] { return std::string("(?:/(?:[^/~]|~[01])*)*"); }},
      {"relative-json-pointer",
       [] { return std::string("(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)"); }},
      {"regex", regex},
  };
  return all;
}

}  // namespace

Format find_format(std::string_view name) {
  if (name == "idn-email" || name == "idn-hostname") return {FormatSupport::kRefused, nullptr};
  const auto found = expressions().find(name);
  if (found == expressions().end()) return {};
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Nfa>, std::less<>> built;
  const std::scoped_lock lock(mutex);
  auto& nfa = built[found->first];
  if (nfa == nullptr) {
    const auto parsed = parse_plain_regex("^(?:" + found->second() + ")$");
    LS_CHECK(parsed.ok(), "format {}", name);
    nfa = *parsed;
  }
  return {FormatSupport::kEnforced, nfa};
}

}  // namespace lineshaft::decoding
