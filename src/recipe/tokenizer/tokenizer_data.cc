// A Tokenizer from the metadata of a GGUF file.
#include <algorithm>
#include <cmath>

#include "recipe/tokenizer/tokenizer.h"
#include "recipe/tokenizer/tokenizer_parts.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

// Ids must fit PairTable's keys and plans; the largest vocabularies have under 300,000.
constexpr size_t kTokensMax = size_t{1} << 24;

// Splits of a token are tried at every border, so its length counts twice. Gemma 3 has 93.
constexpr size_t kMergedBytesMax = 256;

// Values of tokenizer.ggml.token_type.
enum GgmlTokenType : int32_t {
  kTypeNormal = 1,
  kTypeUnknown = 2,
  kTypeControl = 3,
  kTypeUserDefined = 4,
  kTypeUnused = 5,
  kTypeByte = 6,
};

Status check_data(const TokenizerData& data) {
  const size_t count = data.tokens.size();
  if (count == 0) return invalid_argument("tokenizer.ggml.tokens is missing or empty");
  if (count > kTokensMax) {
    return out_of_range("tokenizer.ggml.tokens has {} entries; at most {} are supported", count,
                        kTokensMax);
  }
  if (!data.token_types.empty() && data.token_types.size() != count) {
    return invalid_argument("tokenizer.ggml.token_type has {} entries for {} tokens",
                            data.token_types.size(), count);
  }
  for (size_t i = 0; i < data.token_types.size(); ++i) {
    const int32_t type = data.token_types[i];
    if (type < kTypeNormal || type > kTypeByte) {
      return invalid_argument("tokenizer.ggml.token_type[{}] is {}; known are 1 to 6", i, type);
    }
  }
  const std::pair<const char*, std::optional<TokenId>> ids[] = {
      {"bos", data.bos}, {"eos", data.eos}, {"eot", data.eot}, {"unknown", data.unknown}};
  for (const auto& [name, id] : ids) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return invalid_argument("tokenizer.ggml.{}_token_id is {}; there are {} tokens", name, *id,
                              count);
    }
  }
  return ok_status();
}

bool is_whitespace(std::string_view text) {
  return !text.empty() && text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_unused_name(std::string_view text) {
  return text.starts_with("<unused") && text.ends_with('>') &&
         text.substr(7, text.size() - 8).find_first_not_of("0123456789") == std::string_view::npos;
}

// What a token is to us. Converters get some tokens of Gemma 3 wrong: it has <unusedN> and <mask>
// as ordinary text tokens, and the image marks as control tokens, the other way round.
TokenKind llama_kind(std::string_view spelled, int32_t type) {
  if (type == kTypeControl && (is_unused_name(spelled) || spelled == "<mask>")) {
    return TokenKind::kAdded;
  }
  if (type == kTypeUserDefined &&
      (spelled == "<start_of_image>" || spelled == "<end_of_image>")) {
    return TokenKind::kControl;
  }
  switch (type) {
    case kTypeUnknown: return TokenKind::kUnknown;
    case kTypeControl: return TokenKind::kControl;
    case kTypeUserDefined: return TokenKind::kAdded;
    case kTypeUnused: return TokenKind::kUnused;
    case kTypeByte: return TokenKind::kByte;
    default: return TokenKind::kNormal;
  }
}

// Byte-level models: a user-defined token is structure (<think>, <tool_call>, …) that users must
// not be able to forge, unless it is a run of whitespace, which only exists to save tokens.
TokenKind gpt2_kind(std::string_view spelled, int32_t type) {
  if (type == kTypeUserDefined && !is_whitespace(spelled)) return TokenKind::kControl;
  return type == kTypeByte ? TokenKind::kNormal : llama_kind(spelled, type);
}

bool is_found_in_text(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kAdded;
}

void add_special_ids(const TokenizerData& data, bool add_bos_default, TokenizerParts& parts) {
  Vocab& vocab = parts.vocab;
  vocab.bos = data.bos.value_or(-1);
  vocab.eos = data.eos.value_or(-1);
  if (data.eot) vocab.end_of_generation.push_back(*data.eot);
  vocab.add_bos = data.add_bos.value_or(add_bos_default) && vocab.bos >= 0;
}

Status add_merges(const TokenizerData& data, BpeData& bpe) {
  if (data.merges.empty()) return invalid_argument("tokenizer.ggml.merges is missing or empty");
  StringTable ids(data.tokens);
  for (size_t i = 0; i < data.tokens.size(); ++i) ids.insert(static_cast<int32_t>(i));
  bpe.merges.reserve(data.merges.size());
  std::string joined;
  for (size_t i = 0; i < data.merges.size(); ++i) {
    const std::string_view text = data.merges[i];
    const size_t space = text.find(' ', 1);  // a part has at least one character
    if (space == std::string_view::npos) {
      return invalid_argument("tokenizer.ggml.merges[{}] has no space between two parts", i);
    }
    joined.assign(text.substr(0, space));
    joined += text.substr(space + 1);
    const Merge merge{ids.find(text.substr(0, space)), ids.find(text.substr(space + 1)),
                      ids.find(joined)};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      return invalid_argument("tokenizer.ggml.merges[{}]: a part or the result is no token", i);
    }
    bpe.merges.push_back(merge);
  }
  return ok_status();
}

// tokenizer.ggml.model = "gpt2"
StatusOr<TokenizerParts> gpt2_parts(TokenizerData& data) {
  TokenizerParts parts;
  if (!data.pre) {
    parts.warnings.push_back(
        "tokenizer.ggml.pre is missing: the file is old and its text may be split wrongly; "
        "GPT-2's pre-tokenizer is used");
  }
  LS_ASSIGN_OR_RETURN(parts.pre, PreTokenizer::from_gguf_name(data.pre.value_or("gpt-2")));
  const std::string name = data.pre.value_or("gpt-2");
  parts.ignore_merges = name == "llama-bpe" || name == "llama3" || name == "llama-v3";
  parts.normalizer = name == "qwen2" ? Normalizer::kNfc : Normalizer::kNone;
  LS_RETURN_IF_ERROR(add_merges(data, parts.bpe));
  parts.bpe.byte_ids.fill(-1);
  std::string bytes;
  for (TokenId id = 0; id < static_cast<TokenId>(data.tokens.size()); ++id) {
    std::string& spelled = data.tokens[id];
    const int32_t type = data.token_types.empty() ? kTypeNormal : data.token_types[id];
    const TokenKind kind = gpt2_kind(spelled, type);
    parts.vocab.kinds.push_back(kind);
    if (is_found_in_text(kind)) parts.added.push_back({.content = spelled, .id = id});
    const bool in_alphabet = !is_found_in_text(kind) && bytes_of_alphabet(spelled, bytes);
    if (in_alphabet && bytes.size() == 1) parts.bpe.byte_ids[static_cast<uint8_t>(bytes[0])] = id;
    parts.vocab.bytes.push_back(in_alphabet ? bytes : std::move(spelled));
  }
  add_special_ids(data, false, parts);
  return parts;
}

struct ScoredMerge {
  Merge merge;
  float score;
  uint16_t left_chars;
  uint16_t right_chars;
};

// Byte offsets where a merge may join `text`: the borders between its characters.
void borders_of(std::string_view text, std::vector<size_t>& borders) {
  borders.clear();
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end; p += decode_utf8(p, end).length) {
    if (p != text.data()) borders.push_back(static_cast<size_t>(p - text.data()));
  }
}

// The merges that SentencePiece scores stand for, in the order of the makers' own conversion
// (transformers, generate_merges): every split of a token into two tokens; the better score
// first, then the longer left part, then the longer right part, then the order of tokens. Tokens
// that are not learned (user-defined, unused, control) count as score 0. Tokens longer than
// kMergedBytesMax come from no merge.
std::vector<Merge> merges_of_scores(const TokenizerData& data) {
  StringTable ids(data.tokens);
  for (size_t i = 0; i < data.tokens.size(); ++i) ids.insert(static_cast<int32_t>(i));
  std::vector<ScoredMerge> scored;
  std::vector<size_t> borders;
  for (TokenId id = 0; id < static_cast<TokenId>(data.tokens.size()); ++id) {
    const std::string_view text = data.tokens[id];
    const int32_t type = data.token_types.empty() ? kTypeNormal : data.token_types[id];
    const bool whole = type == kTypeByte || type == kTypeUnknown;
    if (whole || text.size() > kMergedBytesMax) continue;
    borders_of(text, borders);
    for (size_t i = 0; i < borders.size(); ++i) {
      const TokenId left = ids.find(text.substr(0, borders[i]));
      if (left < 0) continue;
      const TokenId right = ids.find(text.substr(borders[i]));
      if (right < 0) continue;
      scored.push_back({{left, right, id},
                        type == kTypeNormal ? data.scores[id] : 0.0f,
                        static_cast<uint16_t>(i + 1),
                        static_cast<uint16_t>(borders.size() - i)});
    }
  }
  std::stable_sort(scored.begin(), scored.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.left_chars != b.left_chars) return a.left_chars > b.left_chars;
    return a.right_chars > b.right_chars;
  });
  std::vector<Merge> merges;
  merges.reserve(scored.size());
  for (const ScoredMerge& s : scored) merges.push_back(s.merge);
  return merges;
}

// A token of a SentencePiece model becomes part of the symbols that text is made of.
Status add_symbol(std::string_view spelled, TokenId id, TokenKind kind, TokenizerParts& parts) {
  if (kind == TokenKind::kByte) {
    const int byte = byte_of_fallback(spelled);
    if (byte < 0) {
      return invalid_argument("tokenizer.ggml.tokens[{}] is a byte but not spelled <0xHH>", id);
    }
    parts.bpe.byte_ids[byte] = id;
    parts.vocab.bytes.emplace_back(1, static_cast<char>(byte));
    return ok_status();
  }
  const CodePoint c = spelled.empty()
                          ? CodePoint{}
                          : decode_utf8(spelled.data(), spelled.data() + spelled.size());
  if (!spelled.empty() && c.length == spelled.size() && c.value != kInvalidByte) {
    parts.bpe.char_ids.emplace_back(c.value, id);
  }
  parts.vocab.bytes.push_back(bars_to_spaces(spelled));
  return ok_status();
}

// tokenizer.ggml.model = "llama"
StatusOr<TokenizerParts> llama_parts(TokenizerData& data) {
  if (data.scores.size() != data.tokens.size()) {
    return invalid_argument("tokenizer.ggml.scores has {} entries for {} tokens",
                            data.scores.size(), data.tokens.size());
  }
  if (std::any_of(data.scores.begin(), data.scores.end(), [](float s) { return std::isnan(s); })) {
    return invalid_argument("tokenizer.ggml.scores holds a value that is no number");
  }
  TokenizerParts parts;
  parts.normalizer = Normalizer::kSpaceToBar;
  parts.space_prefix = data.add_space_prefix.value_or(true);
  parts.bpe.byte_level = false;
  parts.bpe.byte_ids.fill(-1);
  parts.bpe.fuse_unknown = true;
  parts.bpe.unknown = data.unknown.value_or(-1);
  for (TokenId id = 0; id < static_cast<TokenId>(data.tokens.size()); ++id) {
    std::string& spelled = data.tokens[id];
    const int32_t type = data.token_types.empty() ? kTypeNormal : data.token_types[id];
    const TokenKind kind = llama_kind(spelled, type);
    // Converters write the runs of U+2581 among the user-defined tokens with spaces.
    if (type == kTypeUserDefined && is_whitespace(spelled)) {
      std::string bars;
      for (const char c : spelled) bars += c == ' ' ? kBar : std::string_view(&c, 1);
      spelled = std::move(bars);
    }
    parts.vocab.kinds.push_back(kind);
    LS_RETURN_IF_ERROR(add_symbol(spelled, id, kind, parts));
    if (is_found_in_text(kind)) parts.added.push_back({.content = spelled, .id = id});
  }
  parts.bpe.merges = merges_of_scores(data);
  split_at_bars(data.tokens, parts.bpe.merges, parts.pre);
  add_special_ids(data, true, parts);
  return parts;
}

}  // namespace

StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_from_data(TokenizerData data) {
  if (data.model != "gpt2" && data.model != "llama") {
    return unimplemented("tokenizer.ggml.model: the tokenizer '{}' is not supported", data.model);
  }
  LS_RETURN_IF_ERROR(check_data(data));
  LS_ASSIGN_OR_RETURN(TokenizerParts parts,
                      data.model == "gpt2" ? gpt2_parts(data) : llama_parts(data));
  LS_RETURN_IF_ERROR(finish_parts(parts));
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace lineshaft::recipe
