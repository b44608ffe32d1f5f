// At stake: prompts of models with a Jinja template must be, to the piece and the id, what the
// template gives, and no text of a request may become a control token
// (tests/golden/recipe/templates/README.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "base/json.h"
#include "model/gguf.h"
#include "model/spec_loader.h"
#include "recipe/encoding/chat_template.h"
#include "recipe/template/template.h"

namespace lineshaft::recipe {
namespace {

struct Model {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string chat_template;
  std::string bos;
  std::string eos;
};

StatusOr<Json> read_json(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return parse_json(text.str());
}

std::string token_name(const Json& config, const char* key) {
  return config.contains(key) && config[key].is_string() ? config[key].get<std::string>() : "";
}

StatusOr<Model> packaged_model(const std::string& folder, const std::string& name) {
  Model out;
  // Llama 3 and 3.1 differ in the names of tokens that no case uses.
  const std::string tokenizer = name == "llama3_1" ? "llama3" : name;
  LS_ASSIGN_OR_RETURN(out.tokenizer, tokenizer_from_json_file(folder + "/" + tokenizer + ".json"));
  LS_ASSIGN_OR_RETURN(const Json config, read_json(folder + "/" + name + "_tokenizer_config.json"));
  out.chat_template = config["chat_template"].get<std::string>();
  out.bos = token_name(config, "bos_token");
  out.eos = token_name(config, "eos_token");
  return out;
}

StatusOr<Model> gguf_model(const char* path) {
  Model out;
  LS_ASSIGN_OR_RETURN(const auto file, model::GgufFile::open(path));
  LS_ASSIGN_OR_RETURN(TokenizerData data, model::load_tokenizer_data(*file));
  LS_ASSIGN_OR_RETURN(out.tokenizer, tokenizer_from_data(std::move(data)));
  const auto text = file->string("tokenizer.chat_template");
  if (text.ok()) out.chat_template = std::string(*text);
  const auto vocab = out.tokenizer->vocab();
  out.bos = std::string(out.tokenizer->token_bytes(vocab->bos));
  out.eos = std::string(out.tokenizer->token_bytes(vocab->eos));
  return out;
}

// The request's fields as the template's variables, all of them a user's.
jinja::Variables variables_of(const Json& request, const Model& model) {
  jinja::Variables out;
  for (const auto& [key, value] : request.items()) {
    out.emplace_back(key, jinja::value_from_json(value, Origin::kUser));
  }
  const auto put = [&](const char* name, const std::string& text) {
    if (!text.empty()) out.emplace_back(name, jinja::make_text(text, Origin::kScaffolding));
  };
  put("bos_token", model.bos);
  put("eos_token", model.eos);
  return out;
}

std::vector<Piece> pieces_of(const Json& expected) {
  std::vector<Piece> out;
  for (const Json& piece : expected["text_pieces"]) {
    out.push_back({piece[0] == "special", piece[1].get<std::string>()});
  }
  return out;
}

void compare(const Model& model, const std::string& name) {
  const auto text = jinja::Template::parse(model.chat_template);
  ASSERT_TRUE(text.ok()) << text.status();
  std::ifstream lines("tests/golden/recipe/templates/" + name + "_cases.jsonl");
  int compared = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    const Json item = *parse_json(line);
    const Json& expected = item["expected"];
    const auto rendered = (*text)->render(variables_of(item["request"], model), 0);
    if (expected.contains("error")) {
      EXPECT_FALSE(rendered.ok()) << item["id"];
      EXPECT_NE(message_of(rendered.status()).find(expected["error"]["message"].get<std::string>()),
                std::string::npos)
          << item["id"] << rendered.status();
      continue;
    }
    ASSERT_TRUE(rendered.ok()) << item["id"] << rendered.status();
    EXPECT_EQ(rendered->text(), expected["prompt"].get<std::string>()) << item["id"];
    const auto pieces = template_pieces(*rendered, *model.tokenizer);
    EXPECT_EQ(pieces, pieces_of(expected)) << item["id"];
    const auto ids = encode_pieces(pieces, *model.tokenizer);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, expected["token_ids"].get<std::vector<TokenId>>()) << item["id"];
  }
  EXPECT_GE(compared, 45);
}

class PackagedTemplate : public testing::TestWithParam<std::string> {};

TEST_P(PackagedTemplate, prompts_have_the_pieces_and_ids_of_the_reference) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  const auto model = packaged_model(folder, GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  compare(*model, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, PackagedTemplate,
                         testing::Values("gemma3", "llama3", "llama3_1", "qwen3"),
                         [](const auto& info) { return info.param; });

TEST(GgufTemplate, smollm2_prompts_have_the_pieces_and_ids_of_the_reference) {
  const char* path = std::getenv("LINESHAFT_SMOLLM2");
  if (path == nullptr) GTEST_SKIP() << "LINESHAFT_SMOLLM2 is not set";
  const auto model = gguf_model(path);
  ASSERT_TRUE(model.ok()) << model.status();
  compare(*model, "smollm2");
}

TEST(GgufTemplate, gemma3_prompts_have_the_pieces_and_ids_of_the_reference) {
  const char* path = std::getenv("LINESHAFT_GEMMA3");
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (path == nullptr) GTEST_SKIP() << "LINESHAFT_GEMMA3 is not set";
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  auto model = gguf_model(path);
  const auto packaged = packaged_model(folder, "gemma3");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(packaged.ok()) << packaged.status();
  model->chat_template = packaged->chat_template;  // this file has none
  compare(*model, "gemma3");
}

// Every string of a conversation that a user can write.
Conversation conversation_with(const std::string& text) {
  Conversation out;
  out.tools.push_back({text, text, {{"type", "object"}, {text, {{"title", text}}}}});
  out.turns.push_back({.role = Role::kSystem, .content = text});
  out.turns.push_back({.role = Role::kUser, .content = "a" + text + "\n" + text});
  Turn answer{.role = Role::kAssistant, .content = text};
  answer.reasoning = text;
  answer.calls.push_back({text, text, write_json(Json{{text, text}})});
  answer.calls.push_back({text, text, text});
  out.turns.push_back(std::move(answer));
  out.turns.push_back({.role = Role::kTool, .content = text, .call_id = text});
  out.turns.push_back({.role = Role::kTool, .content = text, .call_id = text});
  out.turns.push_back({.role = Role::kUser, .content = text});
  return out;
}

std::vector<std::string> controls_of(const std::vector<Piece>& pieces) {
  std::vector<std::string> out;
  for (const Piece& piece : pieces) {
    if (piece.control) out.push_back(piece.text);
  }
  return out;
}

TEST(TemplateOrigin, no_control_token_of_the_vocabulary_comes_out_of_any_field) {
  const char* folder = std::getenv("LINESHAFT_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "LINESHAFT_TOKENIZERS is not set";
  for (const std::string name : {"qwen3", "llama3_1"}) {
    const auto model = packaged_model(folder, name);
    ASSERT_TRUE(model.ok()) << model.status();
    // A tokenizer.json does not say which token is BOS.
    const auto encoder = ChatTemplate::make(
        model->tokenizer, fmt::format("{{% set bos_token = '{}' %}}{}", model->bos,
                                      model->chat_template),
        [] { return int64_t{0}; });
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    const auto usual = controls_of(*(*encoder)->pieces(conversation_with("harmless")));
    const auto vocab = model->tokenizer->vocab();
    for (TokenId id = 0; id < vocab->size(); ++id) {
      if (vocab->kinds[static_cast<size_t>(id)] != TokenKind::kControl) continue;
      const std::string& spelled = vocab->bytes[static_cast<size_t>(id)];
      const auto pieces = (*encoder)->pieces(conversation_with(spelled));
      ASSERT_TRUE(pieces.ok()) << spelled << pieces.status();
      EXPECT_EQ(controls_of(*pieces), usual) << name << " " << spelled;
      const auto ids = (*encoder)->encode(conversation_with(spelled), true);
      const auto controls = std::count_if(ids->begin(), ids->end(), [&](TokenId got) {
        return vocab->kinds[static_cast<size_t>(got)] == TokenKind::kControl;
      });
      EXPECT_EQ(controls, static_cast<ptrdiff_t>(usual.size())) << name << " " << spelled;
    }
  }
}

}  // namespace
}  // namespace lineshaft::recipe
