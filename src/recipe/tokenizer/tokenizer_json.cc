// A Tokenizer from a Hugging Face tokenizer.json.
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "recipe/tokenizer/tokenizer.h"
#include "recipe/tokenizer/tokenizer_parts.h"
#include "recipe/tokenizer/utf8.h"

namespace lineshaft::recipe {
namespace {

constexpr TokenId kIdMax = (1 << 24) - 1;

const Json& null_json() {
  static const Json null;
  return null;
}

// The member `key` of an object; null when it is missing.
const Json& member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? null_json() : *it;
}

StatusOr<bool> get_bool(const Json& object, const char* key, bool otherwise) {
  const Json& value = member(object, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) return invalid_argument("tokenizer.json: '{}' is not a boolean", key);
  return value.get<bool>();
}

// Empty when missing or null.
StatusOr<std::string> get_string(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_null()) return std::string();
  if (!value.is_string()) return invalid_argument("tokenizer.json: '{}' is not a string", key);
  return value.get<std::string>();
}

// The field "type" of the part `what`.
StatusOr<std::string> type_of(const Json& part, const char* what) {
  if (!part.is_object()) return invalid_argument("tokenizer.json: {} is not an object", what);
  return get_string(part, "type");
}

StatusOr<TokenId> to_id(const Json& value, std::string_view token) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kIdMax)) {
    return static_cast<TokenId>(value.get<uint64_t>());
  }
  return invalid_argument("tokenizer.json: the id of '{}' is not in [0, {}]", token, kIdMax);
}

class Reader {
 public:
  StatusOr<TokenizerParts> read(const Json& root);

 private:
  Status read_normalizer(const Json& part);
  Status read_pre_tokenizer(const Json& part);
  Status read_split(const Json& part);
  Status read_byte_level(const Json& part);
  Status read_decoder(const Json& part);
  Status read_post_processor(const Json& part);
  Status check_model(const Json& model);
  Status read_vocab(const Json& model);
  Status read_added(const Json& list);
  Status read_merges(const Json& list);
  Status add_merge(std::string_view left, std::string_view right, const StringTable& ids,
                   size_t index);
  void derive_bytes();
  void derive_symbol(TokenId id);

  TokenizerParts parts_;
  std::vector<std::string> spelled_;  // of each id; empty: a hole
  std::vector<bool> in_model_;        // the id belongs to model.vocab
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  std::string unknown_;
};

Status Reader::read_normalizer(const Json& part) {
  if (part.is_null()) return ok_status();
  LS_ASSIGN_OR_RETURN(const std::string type, type_of(part, "normalizer"));
  if (type == "Sequence") {
    const Json& list = member(part, "normalizers");
    if (!list.is_array()) return invalid_argument("tokenizer.json: 'normalizers' is not an array");
    for (const Json& inner : list) LS_RETURN_IF_ERROR(read_normalizer(inner));
    return ok_status();
  }
  if (parts_.normalizer != Normalizer::kNone) {
    return unimplemented("tokenizer.json: more than one normalizer is not supported");
  }
  if (type == "NFC") {
    parts_.normalizer = Normalizer::kNfc;
    return ok_status();
  }
  const Json bar = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kBar}};
  if (part != bar) {
    return unimplemented("tokenizer.json: the normalizer '{}' is not supported", type);
  }
  parts_.normalizer = Normalizer::kSpaceToBar;
  return ok_status();
}

Status Reader::read_byte_level(const Json& part) {
  LS_ASSIGN_OR_RETURN(const bool prefix, get_bool(part, "add_prefix_space", true));
  LS_ASSIGN_OR_RETURN(const bool regex, get_bool(part, "use_regex", true));
  if (prefix) return unimplemented("tokenizer.json: ByteLevel with add_prefix_space");
  if (regex) parts_.pre.add_gpt2();
  byte_level_ = true;
  return ok_status();
}

Status Reader::read_split(const Json& part) {
  const Json& pattern = member(part, "pattern");
  LS_ASSIGN_OR_RETURN(const std::string behavior, get_string(part, "behavior"));
  LS_ASSIGN_OR_RETURN(const bool invert, get_bool(part, "invert", false));
  const bool is_object = pattern.is_object();
  // Gemma splits at spaces, of which its normalizer has left none.
  const bool no_spaces = parts_.normalizer == Normalizer::kSpaceToBar;
  if (no_spaces && is_object && member(pattern, "String") == Json(" ")) return ok_status();
  const Json& regex = is_object ? member(pattern, "Regex") : null_json();
  if (!regex.is_string()) return unimplemented("tokenizer.json: Split without a Regex pattern");
  if (behavior != "Isolated" || invert) {
    return unimplemented("tokenizer.json: Split with behavior '{}'{}", behavior,
                         invert ? ", inverted" : "");
  }
  return parts_.pre.add_regex(regex.get_ref<const std::string&>());
}

Status Reader::read_pre_tokenizer(const Json& part) {
  if (part.is_null()) return ok_status();
  LS_ASSIGN_OR_RETURN(const std::string type, type_of(part, "pre_tokenizer"));
  if (byte_level_) {
    return unimplemented("tokenizer.json: the pre-tokenizer '{}' after ByteLevel", type);
  }
  if (type == "Sequence") {
    const Json& list = member(part, "pretokenizers");
    if (!list.is_array()) {
      return invalid_argument("tokenizer.json: 'pretokenizers' is not an array");
    }
    for (const Json& inner : list) LS_RETURN_IF_ERROR(read_pre_tokenizer(inner));
    return ok_status();
  }
  if (type == "Split") return read_split(part);
  if (type == "ByteLevel") return read_byte_level(part);
  if (type == "Digits") {
    LS_ASSIGN_OR_RETURN(const bool individual, get_bool(part, "individual_digits", false));
    parts_.pre.add_digits(individual);
    return ok_status();
  }
  return unimplemented("tokenizer.json: the pre-tokenizer '{}' is not supported", type);
}

// The decoder follows from the vocabulary; a file that says otherwise is refused.
Status Reader::read_decoder(const Json& part) {
  const auto supported = [&](const Json& one) -> StatusOr<bool> {
    LS_ASSIGN_OR_RETURN(const std::string type, type_of(one, "decoder"));
    if (byte_level_) return type == "ByteLevel";
    const Json bar = {{"type", "Replace"}, {"pattern", {{"String", kBar}}}, {"content", " "}};
    return type == "ByteFallback" || type == "Fuse" || one == bar;
  };
  LS_ASSIGN_OR_RETURN(const std::string type, type_of(part, "decoder"));
  const Json& list = type == "Sequence" ? member(part, "decoders") : Json::array({part});
  if (!list.is_array()) return invalid_argument("tokenizer.json: 'decoders' is not an array");
  for (const Json& one : list) {
    LS_ASSIGN_OR_RETURN(const bool ok, supported(one));
    if (!ok) {
      return unimplemented("tokenizer.json: the decoder {} is not supported", write_json(one));
    }
  }
  return ok_status();
}

// Only tells whether raw prompts begin with BOS; encode() itself never adds a token.
Status Reader::read_post_processor(const Json& part) {
  if (!part.is_object() || member(part, "type") != Json("TemplateProcessing")) return ok_status();
  const Json& single = member(part, "single");
  if (!single.is_array() || single.empty() || !single[0].is_object()) return ok_status();
  const Json& first = member(single[0], "SpecialToken");
  if (!first.is_object()) return ok_status();
  LS_ASSIGN_OR_RETURN(const std::string name, get_string(first, "id"));
  for (const AddedToken& token : parts_.added) {
    if (token.content != name) continue;
    parts_.vocab.bos = token.id;
    parts_.vocab.add_bos = true;
  }
  return ok_status();
}

Status Reader::check_model(const Json& model) {
  LS_ASSIGN_OR_RETURN(const std::string type, type_of(model, "model"));
  if (!type.empty() && type != "BPE") {
    return unimplemented("tokenizer.json: the model '{}' is not supported", type);
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    LS_ASSIGN_OR_RETURN(const std::string affix, get_string(model, key));
    if (!affix.empty()) return unimplemented("tokenizer.json: '{}' is not supported", key);
  }
  const Json& dropout = member(model, "dropout");
  if (!dropout.is_null() && dropout != Json(0.0)) {
    return unimplemented("tokenizer.json: 'dropout' is not supported");
  }
  LS_ASSIGN_OR_RETURN(parts_.ignore_merges, get_bool(model, "ignore_merges", false));
  LS_ASSIGN_OR_RETURN(parts_.bpe.fuse_unknown, get_bool(model, "fuse_unk", false));
  LS_ASSIGN_OR_RETURN(byte_fallback_, get_bool(model, "byte_fallback", false));
  LS_ASSIGN_OR_RETURN(unknown_, get_string(model, "unk_token"));
  return ok_status();
}

Status Reader::read_vocab(const Json& model) {
  const Json& vocab = member(model, "vocab");
  if (!vocab.is_object()) return invalid_argument("tokenizer.json: model.vocab is not an object");
  for (const auto& [token, value] : vocab.items()) {
    LS_ASSIGN_OR_RETURN(const TokenId id, to_id(value, token));
    if (spelled_.size() <= static_cast<size_t>(id)) {
      spelled_.resize(id + 1);
      in_model_.resize(id + 1);
    }
    if (in_model_[id]) return invalid_argument("tokenizer.json: two tokens have the id {}", id);
    in_model_[id] = true;
    spelled_[id] = token;
    if (!unknown_.empty() && token == unknown_) parts_.bpe.unknown = id;
  }
  parts_.vocab.kinds.assign(spelled_.size(), TokenKind::kUnused);
  for (size_t i = 0; i < spelled_.size(); ++i) {
    if (in_model_[i]) parts_.vocab.kinds[i] = TokenKind::kNormal;
  }
  if (parts_.bpe.unknown >= 0) parts_.vocab.kinds[parts_.bpe.unknown] = TokenKind::kUnknown;
  return ok_status();
}

// An added token that the model's own vocabulary has too and that is not marked special is a text
// token that merges must not cut (Gemma's runs of newlines); all others are structure of the
// dialogue, which the mark "special" does not tell (DeepSeek, Qwen).
Status Reader::read_added(const Json& list) {
  if (list.is_null()) return ok_status();
  if (!list.is_array()) return invalid_argument("tokenizer.json: 'added_tokens' is not an array");
  for (const Json& entry : list) {
    if (!entry.is_object()) return invalid_argument("tokenizer.json: an added token is no object");
    AddedToken token;
    LS_ASSIGN_OR_RETURN(token.content, get_string(entry, "content"));
    LS_ASSIGN_OR_RETURN(token.id, to_id(member(entry, "id"), token.content));
    LS_ASSIGN_OR_RETURN(token.normalized, get_bool(entry, "normalized", true));
    LS_ASSIGN_OR_RETURN(token.lstrip, get_bool(entry, "lstrip", false));
    LS_ASSIGN_OR_RETURN(token.rstrip, get_bool(entry, "rstrip", false));
    LS_ASSIGN_OR_RETURN(token.single_word, get_bool(entry, "single_word", false));
    LS_ASSIGN_OR_RETURN(const bool special, get_bool(entry, "special", false));
    if (token.normalized && parts_.normalizer != Normalizer::kNone) {
      return unimplemented("tokenizer.json: the added token '{}' is normalized", token.content);
    }
    const auto index = static_cast<size_t>(token.id);
    if (spelled_.size() <= index) {
      spelled_.resize(index + 1);
      in_model_.resize(index + 1);
      parts_.vocab.kinds.resize(index + 1, TokenKind::kUnused);
    }
    if (in_model_[index] && spelled_[index] != token.content) {
      return invalid_argument("tokenizer.json: the added token '{}' has the id of '{}'",
                              token.content, spelled_[index]);
    }
    parts_.vocab.kinds[index] =
        special || !in_model_[index] ? TokenKind::kControl : TokenKind::kAdded;
    spelled_[index] = token.content;
    parts_.added.push_back(std::move(token));
  }
  return ok_status();
}

Status Reader::add_merge(std::string_view left, std::string_view right, const StringTable& ids,
                         size_t index) {
  std::string joined(left);
  joined += right;
  const Merge merge{ids.find(left), ids.find(right), ids.find(joined)};
  if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
    return invalid_argument("tokenizer.json: model.merges[{}]: a part or the result is no token",
                            index);
  }
  parts_.bpe.merges.push_back(merge);
  return ok_status();
}

Status Reader::read_merges(const Json& list) {
  if (!list.is_array()) return invalid_argument("tokenizer.json: model.merges is not an array");
  StringTable ids(spelled_);
  for (size_t i = 0; i < spelled_.size(); ++i) {
    if (in_model_[i]) ids.insert(static_cast<int32_t>(i));
  }
  parts_.bpe.merges.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& entry = list[i];
    if (entry.is_string()) {
      const std::string_view text = entry.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos) {
        return invalid_argument("tokenizer.json: model.merges[{}] has no space", i);
      }
      LS_RETURN_IF_ERROR(add_merge(text.substr(0, space), text.substr(space + 1), ids, i));
    } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
               entry[1].is_string()) {
      LS_RETURN_IF_ERROR(add_merge(entry[0].get_ref<const std::string&>(),
                                   entry[1].get_ref<const std::string&>(), ids, i));
    } else {
      return invalid_argument("tokenizer.json: model.merges[{}] is no pair of strings", i);
    }
  }
  return ok_status();
}

// What a token of the model's vocabulary is made of becomes a symbol that text can have.
void Reader::derive_symbol(TokenId id) {
  const std::string& spelled = spelled_[id];
  if (byte_level_) {
    std::string& bytes = parts_.vocab.bytes[id];
    if (bytes_of_alphabet(spelled, bytes)) {
      if (bytes.size() == 1) parts_.bpe.byte_ids[static_cast<uint8_t>(bytes[0])] = id;
    } else {
      bytes = spelled;
    }
    return;
  }
  const int byte = byte_fallback_ ? byte_of_fallback(spelled) : -1;
  if (byte >= 0) {
    parts_.bpe.byte_ids[byte] = id;
    parts_.vocab.bytes[id].assign(1, static_cast<char>(byte));
    parts_.vocab.kinds[id] = TokenKind::kByte;
    return;
  }
  if (!spelled.empty()) {
    const CodePoint c = decode_utf8(spelled.data(), spelled.data() + spelled.size());
    if (c.length == spelled.size()) parts_.bpe.char_ids.emplace_back(c.value, id);
  }
  parts_.vocab.bytes[id] = bars_to_spaces(spelled);
}

void Reader::derive_bytes() {
  parts_.bpe.byte_level = byte_level_;
  parts_.bpe.byte_ids.fill(-1);
  parts_.vocab.bytes.resize(spelled_.size());
  for (TokenId id = 0; id < static_cast<TokenId>(spelled_.size()); ++id) {
    if (in_model_[id]) {
      derive_symbol(id);
    } else {
      parts_.vocab.bytes[id] = byte_level_ ? spelled_[id] : bars_to_spaces(spelled_[id]);
    }
  }
}

StatusOr<TokenizerParts> Reader::read(const Json& root) {
  if (!root.is_object()) return invalid_argument("tokenizer.json: not an object");
  LS_RETURN_IF_ERROR(check_model(member(root, "model")));
  LS_RETURN_IF_ERROR(read_normalizer(member(root, "normalizer")));
  LS_RETURN_IF_ERROR(read_pre_tokenizer(member(root, "pre_tokenizer")));
  LS_RETURN_IF_ERROR(read_decoder(member(root, "decoder")));
  LS_RETURN_IF_ERROR(read_vocab(member(root, "model")));
  LS_RETURN_IF_ERROR(read_added(member(root, "added_tokens")));
  LS_RETURN_IF_ERROR(read_merges(member(member(root, "model"), "merges")));
  LS_RETURN_IF_ERROR(read_post_processor(member(root, "post_processor")));
  if (spelled_.empty()) return invalid_argument("tokenizer.json: model.vocab is empty");
  derive_bytes();
  if (parts_.normalizer == Normalizer::kSpaceToBar && parts_.pre.name().empty()) {
    split_at_bars(spelled_, parts_.bpe.merges, parts_.pre);
  }
  LS_RETURN_IF_ERROR(finish_parts(parts_));
  return std::move(parts_);
}

}  // namespace

StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::string_view text) {
  LS_ASSIGN_OR_RETURN(const Json root, parse_json(text));
  LS_ASSIGN_OR_RETURN(TokenizerParts parts, Reader().read(root));
  return std::make_shared<const Tokenizer>(std::move(parts));
}

StatusOr<std::shared_ptr<const Tokenizer>> tokenizer_from_json_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return not_found("tokenizer file '{}' can't be read", path);
  return tokenizer_from_json(text.view());
}

}  // namespace lineshaft::recipe
