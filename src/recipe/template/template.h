// Template: a chat template in the part of Jinja 2 that Hugging Face's templates use. Rendering
// keeps who wrote each byte; work and memory of a rendering are bounded, whatever the template.
// Knows no conversation and no tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "recipe/template/ast.h"
#include "recipe/template/value.h"

namespace lineshaft::recipe::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

struct RenderLimits {
  // The budget of one rendering: so much, and more for each byte of text in the variables.
  int64_t steps = 20'000'000;
  int64_t steps_a_byte = 4;
  int64_t bytes = int64_t{64} << 20;
  int64_t bytes_a_byte = 32;
};

// Immutable; may be rendered by many threads at once.
class Template {
 public:
  // As Hugging Face's environment reads it: trim_blocks, lstrip_blocks, loop controls. Errors begin
  // with "line L, column C: ": kInvalidArgument for what is no template, kUnimplemented for parts
  // of Jinja that are not supported, by name; kOutOfRange for more than 1 MiB.
  static StatusOr<std::shared_ptr<const Template>> parse(std::string_view text);

  // The text for these variables. `unix_seconds` is the time that strftime_now shows, in UTC.
  // kInvalidArgument with "line L, column C: " for what the template refuses (raise_exception) or
  // can't do with these variables; kResourceExhausted when the budget is spent.
  StatusOr<OriginText> render(const Variables& variables, int64_t unix_seconds,
                              const RenderLimits& limits = {}) const;

 private:
  Template(std::string source, Ast ast) : source_(std::move(source)), ast_(std::move(ast)) {}

  std::string source_;
  Ast ast_;
};

}  // namespace lineshaft::recipe::jinja
