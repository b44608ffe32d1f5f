#include "recipe/template/template.h"

#include "recipe/template/lexer.h"
#include "recipe/template/parser.h"
#include "recipe/template/renderer.h"

namespace lineshaft::recipe::jinja {
namespace {

constexpr size_t kTemplateBytesMax = size_t{1} << 20;

int64_t text_bytes(const Value& value) {
  if (value.is_text()) return static_cast<int64_t>(value.text().size()) + 1;
  int64_t total = 1;
  if (value.is<ListPtr>()) {
    for (const Value& item : value.items()) total += text_bytes(item);
  }
  if (value.is<DictPtr>()) {
    for (const auto& [key, item] : value.as<DictPtr>()->entries) {
      total += static_cast<int64_t>(key->size()) + text_bytes(item);
    }
  }
  return total;
}

}  // namespace

StatusOr<std::shared_ptr<const Template>> Template::parse(std::string_view text) {
  if (text.size() > kTemplateBytesMax) {
    return out_of_range("a chat template of {} bytes; {} are the most", text.size(),
                        kTemplateBytesMax);
  }
  std::string source = normalized_source(text);
  LS_ASSIGN_OR_RETURN(Ast ast, jinja::parse(source));
  return std::shared_ptr<const Template>(new Template(std::move(source), std::move(ast)));
}

StatusOr<OriginText> Template::render(const Variables& variables, int64_t unix_seconds,
                                      const RenderLimits& limits) const {
  int64_t input = 0;
  for (const auto& [name, value] : variables) input += text_bytes(value);
  Renderer renderer(ast_, variables, unix_seconds,
                    Budget(limits.steps + input * limits.steps_a_byte,
                           limits.bytes + input * limits.bytes_a_byte));
  auto out = renderer.run();
  if (out.ok()) return out;
  return make_status(out.status().code(),
                     fmt::format("{}: {}", place_of(source_, renderer.failed_at()),
                                 message_of(out.status())));
}

}  // namespace lineshaft::recipe::jinja
