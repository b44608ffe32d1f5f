// At stake: broken tokenizer data must be refused by name, users' text must never become a control
// token, and no text may break or stall the tokenizer.
#include "recipe/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "base/rng.h"

namespace lineshaft::recipe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Ids = std::vector<TokenId>;
using Mode = Tokenizer::Mode;

// The GPT-2 spelling of a byte.
std::string alphabet(int byte) {
  const auto utf8 = [](int c) {
    return c < 0x80 ? std::string(1, static_cast<char>(c))
                    : std::string{static_cast<char>(0xc0 | c >> 6),
                                  static_cast<char>(0x80 | (c & 63))};
  };
  int shifted = 0;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b > 32 && b < 127) || (b > 160 && b != 173);
    if (b == byte) return utf8(printable ? b : 256 + shifted);
    shifted += printable ? 0 : 1;
  }
  return {};
}

// Ids 0 to 255 are the bytes; then merges, a control token, <think> and a run of spaces.
TokenizerData byte_level_data() {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int b = 0; b < 256; ++b) data.tokens.push_back(alphabet(b));
  data.merges = {"h e", "l l", "he ll", "hell o"};
  for (const char* token : {"he", "ll", "hell", "hello", "<|end|>", "<think>", "    "}) {
    data.tokens.emplace_back(token);
  }
  data.token_types.assign(data.tokens.size(), 1);
  data.token_types[260] = 3;
  data.token_types[261] = 4;
  data.token_types[262] = 4;
  data.eos = 260;
  return data;
}

// Characters a, b, U+2581, bytes, and merges that scores stand for.
TokenizerData sentencepiece_data() {
  TokenizerData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "a", "b", "▁", "ab", "▁a", "▁ab", "  ", "<tag>"};
  data.token_types = {2, 3, 1, 1, 1, 1, 1, 1, 4, 4};
  data.scores = {0, 0, -5, -6, -7, -2, -1, -3, -1000, -1000};
  for (int b = 0; b < 256; ++b) {
    data.tokens.push_back(fmt::format("<0x{:02X}>", b));
    data.token_types.push_back(6);
    data.scores.push_back(0);
  }
  data.add_space_prefix = false;
  data.bos = 1;
  return data;
}

std::shared_ptr<const Tokenizer> make(TokenizerData data) {
  auto tokenizer = tokenizer_from_data(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *tokenizer : nullptr;
}

TEST(TokenizerData, byte_level_text_and_added_tokens) {
  const auto t = make(byte_level_data());
  EXPECT_EQ(t->encode("hello", Mode::kPlain), (Ids{259}));
  EXPECT_EQ(t->encode("hello<|end|>", Mode::kSpecial), (Ids{259, 260}));
  EXPECT_EQ(t->encode("<|end|>", Mode::kPlain).size(), 7u);
  EXPECT_EQ(t->encode("<think>", Mode::kSpecial), (Ids{261}));
  EXPECT_EQ(t->encode("<think>", Mode::kPlain).size(), 7u);  // structure, not text
  EXPECT_EQ(t->encode("    ", Mode::kPlain), (Ids{262}));    // a run that saves tokens
  EXPECT_EQ(t->decode(Ids{259, 260, 262, -1, 9999}), "hello<|end|>    ");
  EXPECT_EQ(t->added_token("<think>"), 261);
  EXPECT_EQ(t->added_token("hello"), -1);
  EXPECT_EQ(t->vocab()->end_of_generation, (Ids{260}));
  EXPECT_THAT(t->warnings(), IsEmpty());
}

TEST(TokenizerData, sentencepiece_text_merges_by_score) {
  const auto t = make(sentencepiece_data());
  EXPECT_EQ(t->encode("ab", Mode::kPlain), (Ids{5}));
  EXPECT_EQ(t->encode("b ab", Mode::kPlain), (Ids{3, 7}));   // ▁a before ab, then ▁ab
  EXPECT_EQ(t->encode(" aab", Mode::kPlain), (Ids{6, 5}));
  EXPECT_EQ(t->encode("  a", Mode::kPlain), (Ids{8, 2}));
  EXPECT_EQ(t->encode("é", Mode::kPlain), (Ids{10 + 0xc3, 10 + 0xa9}));
  EXPECT_EQ(t->encode("<s>", Mode::kSpecial), (Ids{1}));
  EXPECT_EQ(t->encode("<s>", Mode::kPlain).size(), 3u);
  EXPECT_EQ(t->encode("<tag>", Mode::kPlain), (Ids{9}));  // user-defined: text
  EXPECT_EQ(t->decode(Ids{6, 3, 8, 2}), " ab  a");
  EXPECT_TRUE(t->vocab()->add_bos);
}

TEST(TokenizerData, a_space_prefix_stands_before_text) {
  TokenizerData data = sentencepiece_data();
  data.add_space_prefix = true;
  EXPECT_EQ(make(data)->encode("a", Mode::kPlain), (Ids{6}));
}

TEST(TokenizerData, a_missing_pre_tokenizer_is_a_warning) {  // P005
  TokenizerData data = byte_level_data();
  data.pre.reset();
  EXPECT_THAT(make(data)->warnings(), testing::ElementsAre(HasSubstr("tokenizer.ggml.pre")));
}

TEST(TokenizerData, what_is_wrong_is_refused_by_its_name) {
  const auto message = [](const auto& change) {
    TokenizerData data = byte_level_data();
    change(data);
    const auto tokenizer = tokenizer_from_data(std::move(data));
    EXPECT_FALSE(tokenizer.ok());
    return std::string(message_of(tokenizer.status()));
  };
  EXPECT_THAT(message([](auto& d) { d.model = "t5"; }), HasSubstr("'t5'"));
  EXPECT_THAT(message([](auto& d) { d.pre = "mystery"; }), HasSubstr("'mystery'"));
  EXPECT_THAT(message([](auto& d) { d.tokens.clear(); }), HasSubstr("ggml.tokens"));
  EXPECT_THAT(message([](auto& d) { d.merges.clear(); }), HasSubstr("ggml.merges"));
  EXPECT_THAT(message([](auto& d) { d.merges[2] = "nospace"; }), HasSubstr("merges[2]"));
  EXPECT_THAT(message([](auto& d) { d.merges[1] = "zz q"; }), HasSubstr("merges[1]"));
  EXPECT_THAT(message([](auto& d) { d.merges[1] = " "; }), HasSubstr("merges[1]"));
  EXPECT_THAT(message([](auto& d) { d.token_types.pop_back(); }), HasSubstr("token_type"));
  EXPECT_THAT(message([](auto& d) { d.token_types[3] = 7; }), HasSubstr("token_type[3] is 7"));
  EXPECT_THAT(message([](auto& d) { d.bos = 263; }), HasSubstr("bos_token_id is 263"));
  EXPECT_THAT(message([](auto& d) { d.eot = -2; }), HasSubstr("eot_token_id is -2"));
  EXPECT_THAT(message([](auto& d) { d.model = "llama"; }), HasSubstr("scores"));
  EXPECT_THAT(message([](auto& d) { d.tokens[260].assign((1 << 20) + 1, 'x'); }),
              HasSubstr("at most 1048576"));
}

TEST(TokenizerData, a_token_of_a_mebibyte_does_not_stall_loading) {
  TokenizerData data = sentencepiece_data();
  for (int i = 0; i < 16; ++i) {
    data.tokens.emplace_back(1 << 20, 'a');
    data.token_types.push_back(1);
    data.scores.push_back(0);
  }
  EXPECT_EQ(make(std::move(data))->encode("ab", Mode::kPlain), (Ids{5}));
}

TEST(TokenizerData, fingerprints_tell_different_tokenizers_apart) {
  const Hash128 same = make(byte_level_data())->vocab()->fingerprint;
  EXPECT_EQ(make(byte_level_data())->vocab()->fingerprint, same);
  TokenizerData merges = byte_level_data();
  std::swap(merges.merges[0], merges.merges[1]);
  EXPECT_NE(make(merges)->vocab()->fingerprint, same);
  TokenizerData pre = byte_level_data();
  pre.pre = "qwen2";
  EXPECT_NE(make(pre)->vocab()->fingerprint, same);
}

TEST(Tokenizer, byte_level_ids_stand_for_the_very_bytes_of_any_text) {
  const auto t = make(byte_level_data());
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const RngKey key = RngKey(21).split(seed);
    std::string text;
    for (uint64_t i = 0; i < key.below(99, 40); ++i) {
      const auto byte = static_cast<char>(key.below(2 * i + 1, 256));
      text += key.below(2 * i, 4) == 0 ? std::string("hello") : std::string(1, byte);
    }
    for (const Mode mode : {Mode::kPlain, Mode::kSpecial}) {
      std::string bytes;
      for (const TokenId id : t->encode(text, mode)) bytes += t->token_bytes(id);
      ASSERT_EQ(bytes, text);
    }
  }
}

TEST(Tokenizer, a_word_has_the_same_ids_wherever_it_stands) {
  const auto t = make(byte_level_data());
  std::string text;
  Ids want;
  const Ids word = t->encode(" hellohe", Mode::kPlain);
  for (int i = 0; i < 5000; ++i) {
    text += " hellohe";
    want.insert(want.end(), word.begin(), word.end());
  }
  EXPECT_EQ(t->encode(text, Mode::kPlain), want);
}

Json small_json() {
  std::ifstream file("tests/golden/tokenizer/small/tokenizer.json");
  std::ostringstream text;
  text << file.rdbuf();
  const auto json = parse_json(text.view());
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : Json();
}

// tests/golden/tokenizer/small: every flag of added tokens, Digits and GPT-2's ByteLevel.
TEST(TokenizerJson, flags_of_added_tokens_work_as_in_the_reference) {
  const auto t = tokenizer_from_json_file("tests/golden/tokenizer/small/tokenizer.json");
  ASSERT_TRUE(t.ok()) << t.status();
  std::ifstream file("tests/golden/tokenizer/small/lines.jsonl");
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const Json json = *parse_json(line);
    EXPECT_EQ((*t)->encode(json["text"].get<std::string>(), Mode::kSpecial),
              json["ids"].get<Ids>())
        << line;
  }
  EXPECT_EQ(count, 400);
}

TEST(TokenizerJson, what_is_not_supported_is_refused_by_its_name) {
  const auto message = [](const auto& change) {
    Json json = small_json();
    change(json);
    const auto tokenizer = tokenizer_from_json(write_json(json));
    EXPECT_FALSE(tokenizer.ok());
    return std::string(message_of(tokenizer.status()));
  };
  const auto type = [](const char* name) { return Json{{"type", name}}; };
  EXPECT_THAT(message([&](Json& j) { j["model"]["type"] = "Unigram"; }), HasSubstr("Unigram"));
  EXPECT_THAT(message([&](Json& j) { j["normalizer"] = type("Lowercase"); }),
              HasSubstr("Lowercase"));
  EXPECT_THAT(message([&](Json& j) { j["pre_tokenizer"] = type("BertPreTokenizer"); }),
              HasSubstr("BertPreTokenizer"));
  EXPECT_THAT(message([&](Json& j) {
                j["pre_tokenizer"] = {{"type", "Split"},
                                      {"pattern", {{"Regex", "[x-z]+"}}},
                                      {"behavior", "Isolated"},
                                      {"invert", false}};
              }),
              HasSubstr("[x-z]+"));
  EXPECT_THAT(message([&](Json& j) { j["decoder"] = type("WordPiece"); }), HasSubstr("WordPiece"));
  EXPECT_THAT(message([&](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
              HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(message([&](Json& j) { j["model"]["dropout"] = 0.1; }), HasSubstr("dropout"));
  EXPECT_THAT(message([&](Json& j) { j["model"]["merges"][3] = "q"; }), HasSubstr("merges[3]"));
  EXPECT_THAT(message([&](Json& j) { j["model"]["vocab"] = 3; }), HasSubstr("vocab"));
  EXPECT_THAT(message([&](Json& j) { j["model"]["vocab"]["!"] = -1; }), HasSubstr("'!'"));
  EXPECT_THAT(message([&](Json& j) { j["added_tokens"][0]["id"] = 5; }), HasSubstr("<l>"));
  EXPECT_THAT(message([&](Json& j) { j["added_tokens"][0]["special"] = 1; }),
              HasSubstr("special"));
  EXPECT_THAT(message([&](Json& j) { j = Json::array(); }), HasSubstr("object"));
  EXPECT_EQ(tokenizer_from_json("{").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(tokenizer_from_json_file("no/such/file").status().code(), StatusCode::kNotFound);
}

// Type confusion and torn documents: a Status or a tokenizer, never a crash.
TEST(TokenizerJson, survives_random_damage) {
  const std::string text = write_json(small_json());
  int refused = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const RngKey key = RngKey(31).split(seed);
    std::string damaged = text;
    static constexpr char kBytes[] = "0129-\",:{}[]ntfe \\u";
    for (uint64_t i = 0; i <= key.below(0, 3); ++i) {
      damaged[key.below(1 + 2 * i, damaged.size())] = kBytes[key.below(2 + 2 * i, 18)];
    }
    const auto tokenizer = tokenizer_from_json(damaged);
    refused += tokenizer.ok() ? 0 : 1;
    if (tokenizer.ok()) (*tokenizer)->encode("hello <l> 12 é", Mode::kSpecial);
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lineshaft::recipe
