#include "recipe/encoding/fill_in_middle.h"

#include <utility>

namespace lineshaft::recipe {
namespace {

// In all of them the prefix comes first and the suffix second: `before` it, `between` the two,
// `after` the suffix.
struct Marks {
  std::string_view before;
  std::string_view between;
  std::string_view after;
};
constexpr Marks kMarks[] = {
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},     // DeepSeek
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},   // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},         // StarCoder
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},         // SantaCoder
};

}  // namespace

std::optional<std::vector<Piece>> fill_in_middle_pieces(const Tokenizer& tokenizer,
                                                        std::string_view prefix,
                                                        std::string_view suffix) {
  for (const Marks& marks : kMarks) {
    const bool known = tokenizer.added_token(marks.before) >= 0 &&
                       tokenizer.added_token(marks.between) >= 0 &&
                       tokenizer.added_token(marks.after) >= 0;
    if (!known) continue;
    PieceList out;
    out.control(marks.before);
    out.plain(prefix);
    out.control(marks.between);
    out.plain(suffix);
    out.control(marks.after);
    return std::move(out).take();
  }
  return std::nullopt;
}

}  // namespace lineshaft::recipe
