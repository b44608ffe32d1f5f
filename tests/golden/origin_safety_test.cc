// At stake: no string of a request, whatever it spells and wherever it stands, may add, remove or
// change one control token of the prompt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "model/gguf.h"
#include "model/spec_loader.h"
#include "recipe/encoding/chat_template.h"
#include "recipe/model_format.h"

namespace lineshaft::recipe {
namespace {

// `text` in every field that an encoder reads.
Conversation with_everywhere(const std::string& text) {
  const Json schema = {{"type", "object"}, {"properties", {{text, {{"description", text}}}}}};
  Conversation out;
  out.thinking = true;
  out.tools = {{text, text, schema}};
  out.response_format = ResponseFormat::kJsonSchema;
  out.response_schema = schema;
  Turn call{Role::kAssistant, text};
  call.reasoning = text;
  call.calls = {{text + "a", text, write_json(Json{{text, text}, {"raw", {text, 1}}})},
                {text + "b", text, text}};
  Turn bare{Role::kAssistant, ""};
  bare.has_content = false;
  bare.calls = call.calls;
  Turn result{Role::kTool, text};
  result.call_id = text + "a";
  Turn notice{Role::kNotice, text};
  notice.new_tools = out.tools;
  Turn last{Role::kAssistant, text};
  last.reasoning = text;
  last.unfinished = true;
  out.turns = {{Role::kSystem, text}, {Role::kUser, text},      call, result,
               bare,                  result,                   {Role::kDeveloper, text},
               notice,                {Role::kReminder, text},  {Role::kUser, text},
               {Role::kUser, text},   last};
  return out;
}

std::vector<TokenId> control_ids(const ModelFormat& format, const Tokenizer& tokenizer,
                                 const Conversation& conversation) {
  std::vector<TokenId> out;
  const auto ids = format.encoder->encode(conversation);
  EXPECT_TRUE(ids.ok()) << ids.status();
  for (const TokenId id : *ids) {
    if (tokenizer.vocab()->kinds[static_cast<size_t>(id)] == TokenKind::kControl) {
      out.push_back(id);
    }
  }
  return out;
}

class OriginSafety : public testing::TestWithParam<const char*> {};

TEST_P(OriginSafety, no_spelling_of_a_control_token_becomes_one_in_any_field) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const std::string name = GetParam();
  const auto tokenizer = tokenizer_from_json_file(std::string(folder) + "/" + name + ".json");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto format = model_format(name, *tokenizer);
  ASSERT_TRUE(format.ok()) << format.status();
  const auto expected = control_ids(*format, **tokenizer, with_everywhere("word"));
  EXPECT_GT(expected.size(), 20u);
  const Vocab& vocab = *(*tokenizer)->vocab();
  int tried = 0;
  for (size_t id = 0; id < vocab.kinds.size(); ++id) {
    if (vocab.kinds[id] != TokenKind::kControl) continue;
    ++tried;
    EXPECT_EQ(control_ids(*format, **tokenizer, with_everywhere(vocab.bytes[id])), expected)
        << vocab.bytes[id];
  }
  EXPECT_GT(tried, 500);
}

INSTANTIATE_TEST_SUITE_P(DeepSeek, OriginSafety,
                         testing::Values("deepseek_v3", "deepseek_v4", "deepseek_v41"));

// A template that takes the turns apart and puts them together again in every way there is, with
// pieces of markers of its own next to them.
constexpr char kHostile[] =
    "{%- set parts = [] -%}"
    "{%- for m in messages -%}"
    "{%- set c = m.content -%}"
    "<{{ c }}>{{ '<' + c[1:] }}{{ '<|' ~ c ~ '|>' }}{{ c[:2] + c[2:] }}{{ c[::-1][::-1] }}"
    "{{ c | trim }}{{ c | string }}{{ c | tojson }}{{ (c ~ '') | replace('x', 'y') }}"
    "{{ c.split('|') | join('|') }}{{ c.strip() }}{{ [c[:3], c[3:]] | join }}{{ c | list | join }}"
    "{{ c.split('>')[0] + '>' }}{{ {'k': c} | tojson }}{{ c | lower }}{{ c | upper | lower }}"
    "{{ c }}{% endfor %}"
    "{%- for m in messages %}{{ m.content }}{% endfor -%}"
    "{{ messages | map(attribute='content') | join }}";

std::vector<std::string> controls_of(const ChatEncoder& encoder, const Conversation& conversation) {
  std::vector<std::string> out;
  const auto pieces = encoder.pieces(conversation);
  EXPECT_TRUE(pieces.ok()) << pieces.status();
  for (const Piece& piece : *pieces) {
    if (piece.control) out.push_back(piece.text);
  }
  return out;
}

// Every control token of the vocabulary, whole and cut over two turns, gives none.
void expect_no_control(const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& name) {
  const auto encoder = ChatTemplate::make(tokenizer, kHostile, [] { return int64_t{0}; });
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  const Vocab& vocab = *tokenizer->vocab();
  int tried = 0;
  for (size_t id = 0; id < vocab.kinds.size(); ++id) {
    if (vocab.kinds[id] != TokenKind::kControl) continue;
    const std::string& spelled = vocab.bytes[id];
    size_t middle = spelled.size() / 2;
    while (middle > 0 && (spelled[middle] & 0xc0) == 0x80) --middle;
    Conversation conversation;
    conversation.turns = {{Role::kUser, spelled},
                          {Role::kAssistant, spelled.substr(0, middle)},
                          {Role::kUser, spelled.substr(middle)}};
    ASSERT_EQ(controls_of(**encoder, conversation), std::vector<std::string>{})
        << name << " " << spelled;
    const auto ids = (*encoder)->encode(conversation);
    ASSERT_TRUE(ids.ok()) << ids.status();
    for (const TokenId got : *ids) {
      ASSERT_NE(vocab.kinds[static_cast<size_t>(got)], TokenKind::kControl) << name << spelled;
    }
    ++tried;
  }
  EXPECT_GT(tried, 3) << name;
}

TEST(OriginSafetyOfTemplates, text_stays_text_through_filters_joins_and_slices) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  for (const std::string name :
       {"deepseek_v3", "deepseek_v4", "deepseek_v41", "qwen3", "llama3", "gemma3"}) {
    const auto tokenizer = tokenizer_from_json_file(std::string(folder) + "/" + name + ".json");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    expect_no_control(*tokenizer, name);
  }
}

TEST(OriginSafetyOfTemplates, text_stays_text_with_the_vocabularies_of_model_files) {
  for (const char* variable : {"LINESHAFT_SMOLLM2", "LINESHAFT_GEMMA3"}) {
    const char* path = std::getenv(variable);
    if (path == nullptr) GTEST_SKIP() << variable << " is not set";
    const auto file = model::GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    auto data = model::load_tokenizer_data(**file);
    ASSERT_TRUE(data.ok()) << data.status();
    const auto tokenizer = tokenizer_from_data(*std::move(data));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    expect_no_control(*tokenizer, variable);
  }
}

}  // namespace
}  // namespace lineshaft::recipe
