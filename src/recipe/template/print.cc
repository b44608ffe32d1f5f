// How values become text: str, repr and json.dumps of Python, origins kept.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "recipe/template/value.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe::jinja {
namespace {

constexpr Origin kOwn = Origin::kScaffolding;

std::string_view python_constant(const Value& value) {
  if (value.is<bool>()) return value.as<bool>() ? "True" : "False";
  return "None";
}

// Code points that Python's repr shows by number. Beyond Latin-1 everything counts as printable.
bool is_printable(uint32_t point) {
  return point >= 0x20 && (point < 0x7f || point > 0xa0) && point != 0xad;
}

void append_repr_char(OriginText& out, std::string_view bytes, uint32_t point, char quote,
                      Origin origin) {
  switch (point) {
    case '\n': return out.append("\\n", origin);
    case '\r': return out.append("\\r", origin);
    case '\t': return out.append("\\t", origin);
    case '\\': return out.append("\\\\", origin);
    default: break;
  }
  if (point == static_cast<uint32_t>(quote)) out.append("\\", origin);
  if (is_printable(point)) return out.append(bytes, origin);
  out.append(fmt::format("\\x{:02x}", point & 0xff), origin);
}

void append_repr_text(OriginText& out, const OriginText& text) {
  const std::string& all = text.text();
  const bool single = all.find('\'') != std::string::npos && all.find('"') == std::string::npos;
  const char quote = single ? '"' : '\'';
  out.append(std::string_view(&quote, 1), kOwn);
  text.each_run([&](std::string_view run, Origin origin) {
    const char* const end = run.data() + run.size();
    for (const char* p = run.data(); p < end;) {
      const CodePoint point = decode_utf8(p, end);
      append_repr_char(out, std::string_view(p, point.length), point.value, quote, origin);
      p += point.length;
    }
  });
  out.append(std::string_view(&quote, 1), kOwn);
}

void append_repr_list(OriginText& out, const ListData& list, Budget& budget) {
  out.append(list.tuple ? "(" : "[", kOwn);
  for (size_t i = 0; i < list.items.size() && !budget.spent(); ++i) {
    if (i > 0) out.append(", ", kOwn);
    append_repr(out, list.items[i], budget);
  }
  if (list.tuple && list.items.size() == 1) out.append(",", kOwn);
  out.append(list.tuple ? ")" : "]", kOwn);
}

void append_repr_dict(OriginText& out, const DictData& dict, Budget& budget) {
  out.append("{", kOwn);
  for (size_t i = 0; i < dict.entries.size() && !budget.spent(); ++i) {
    if (i > 0) out.append(", ", kOwn);
    append_repr_text(out, *dict.entries[i].first);
    out.append(": ", kOwn);
    append_repr(out, dict.entries[i].second, budget);
  }
  out.append("}", kOwn);
}

// "\n", "\"", "\\u001f" …: the escape of one code point, "" when it stands as it is.
std::string json_escape(uint32_t point, bool ascii) {
  switch (point) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: break;
  }
  if (point < 0x20 || (ascii && point >= 0x7f && point < 0x10000)) {
    return fmt::format("\\u{:04x}", point);
  }
  if (!ascii || point < 0x10000 || point == kInvalidByte) return "";
  const uint32_t rest = point - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

void append_json_text(OriginText& out, const OriginText& text, bool ascii) {
  out.append("\"", kOwn);
  text.each_run([&](std::string_view run, Origin origin) {
    const char* const end = run.data() + run.size();
    const char* plain = run.data();
    for (const char* p = run.data(); p < end;) {
      const CodePoint point = decode_utf8(p, end);
      const std::string escape = json_escape(point.value, ascii);
      if (!escape.empty()) {
        out.append(std::string_view(plain, static_cast<size_t>(p - plain)), origin);
        out.append(escape, origin);
        plain = p + point.length;
      }
      p += point.length;
    }
    out.append(std::string_view(plain, static_cast<size_t>(end - plain)), origin);
  });
  out.append("\"", kOwn);
}

std::string json_number(const Value& value) {
  if (!value.is<double>()) return fmt::format("{}", value.integer());
  const double number = value.as<double>();
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return python_float(number);
}

class JsonWriter {
 public:
  JsonWriter(OriginText& out, const JsonStyle& style, Budget& budget)
      : out_(out), style_(style), budget_(budget) {}

  Status write(const Value& value, int level) {
    const size_t before = out_.size();
    if (value.is<None>()) {
      out_.append("null", kOwn);
    } else if (value.is<bool>()) {
      out_.append(value.as<bool>() ? "true" : "false", value.origin);
    } else if (value.is_number()) {
      out_.append(json_number(value), value.origin);
    } else if (value.is_text()) {
      append_json_text(out_, value.text(), style_.ascii);
    } else if (value.is<ListPtr>()) {
      return write_list(value.items(), level);
    } else if (value.is<DictPtr>()) {
      return write_dict(*value.as<DictPtr>(), level);
    } else {
      return invalid_argument("Object of type {} is not JSON serializable", type_name(value));
    }
    budget_.make(static_cast<int64_t>(out_.size() - before + 1));
    return ok_status();
  }

 private:
  Status write_list(const std::vector<Value>& items, int level) {
    if (items.empty()) return literal("[]");
    out_.append("[", kOwn);
    for (size_t i = 0; i < items.size() && !budget_.spent(); ++i) {
      if (i > 0) out_.append(style_.item_separator, kOwn);
      new_line(level + 1);
      LS_RETURN_IF_ERROR(write(items[i], level + 1));
    }
    new_line(level);
    return literal("]");
  }

  Status write_dict(const DictData& dict, int level) {
    if (dict.entries.empty()) return literal("{}");
    out_.append("{", kOwn);
    for (size_t i = 0; i < dict.entries.size() && !budget_.spent(); ++i) {
      if (i > 0) out_.append(style_.item_separator, kOwn);
      new_line(level + 1);
      const auto& [key, value] = dict.entries[style_.sort_keys ? dict.by_key[i] : i];
      append_json_text(out_, *key, style_.ascii);
      out_.append(style_.key_separator, kOwn);
      LS_RETURN_IF_ERROR(write(value, level + 1));
    }
    new_line(level);
    return literal("}");
  }

  Status literal(std::string_view text) {
    out_.append(text, kOwn);
    budget_.make(4);
    return ok_status();
  }

  void new_line(int level) {
    if (style_.indent < 0) return;
    const auto spaces = static_cast<size_t>(style_.indent) * static_cast<size_t>(level);
    out_.append("\n", kOwn);
    out_.append(std::string(spaces, ' '), kOwn);
    budget_.make(static_cast<int64_t>(spaces + 1));
  }

  OriginText& out_;
  const JsonStyle& style_;
  Budget& budget_;
};

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value,
                                        std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const int exponent = std::stoi(text.substr(text.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

void append_repr(OriginText& out, const Value& value, Budget& budget) {
  const size_t before = out.size();
  if (!budget.step()) return;
  if (value.is_text()) {
    append_repr_text(out, value.text());
  } else if (value.is<ListPtr>()) {
    return append_repr_list(out, *value.as<ListPtr>(), budget);
  } else if (value.is<DictPtr>()) {
    return append_repr_dict(out, *value.as<DictPtr>(), budget);
  } else if (value.is<Undefined>()) {
    out.append("Undefined", kOwn);
  } else {
    return append_str(out, value, budget);
  }
  budget.make(static_cast<int64_t>(out.size() - before));
}

void append_str(OriginText& out, const Value& value, Budget& budget) {
  const size_t before = out.size();
  if (value.is_text()) {
    out.append(value.text());
  } else if (value.is<bool>() || value.is<None>()) {
    out.append(python_constant(value), value.origin);
  } else if (value.is<int64_t>()) {
    out.append(fmt::format("{}", value.as<int64_t>()), value.origin);
  } else if (value.is<double>()) {
    out.append(python_float(value.as<double>()), value.origin);
  } else if (value.is<ListPtr>() || value.is<DictPtr>()) {
    return append_repr(out, value, budget);
  } else if (!value.is<Undefined>()) {
    out.append(fmt::format("<{}>", type_name(value)), kOwn);
  }
  budget.make(static_cast<int64_t>(out.size() - before));
}

Status append_json(OriginText& out, const Value& value, const JsonStyle& style, Budget& budget) {
  return JsonWriter(out, style, budget).write(value, 0);
}

}  // namespace lineshaft::recipe::jinja
