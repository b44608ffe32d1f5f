// Masks against single tokens, going back and splitting, refusals, and hostile schemas.
#include "decoding/constraint/constraint.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace lineshaft::decoding {
namespace {

constexpr TokenId kEnd = 0;

std::shared_ptr<const TokenTrie> mixed_trie() {
  static const auto trie = [] {
    Vocab vocab;
    vocab.bytes.emplace_back("<eos>");
    vocab.kinds.push_back(TokenKind::kControl);
    vocab.eos = kEnd;
    vocab.end_of_generation = {kEnd};
    for (int byte = 0; byte < 256; ++byte) vocab.bytes.emplace_back(1, static_cast<char>(byte));
    for (const char* text :
         {"\"}", "\",", "\": ", "{\"", "[\"", "\":", "name", "id", "\"id\"", "\"id\": ", " \"",
          "12", "00", "1.5", "e+", "true", "null", "fal", "se", "\\u00", "\\n", "é", "\xc3", "],",
          "}}", "}]", ", ", ",\"", "\":\"", "aa", "abc", "-1", "  ", "\n  ", "日本", "[[", "]]",
          "1,2", "\"a\",\"b\"", "{}", "[]"}) {
      vocab.bytes.emplace_back(text);
    }
    vocab.kinds.resize(vocab.bytes.size(), TokenKind::kNormal);
    return std::make_shared<const TokenTrie>(vocab);
  }();
  return trie;
}

std::shared_ptr<const Constraint> compile(const std::string& schema) {
  const auto json = parse_json(schema);
  EXPECT_TRUE(json.ok()) << json.status();
  const CompiledSchema compiled = compile_schema(*json);
  EXPECT_NE(compiled.program, nullptr) << compiled.refusal.reason;
  if (compiled.program == nullptr) return nullptr;
  const auto made = json_constraint(mixed_trie(), compiled.program);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

bool accepts(const Constraint& constraint, const std::string& text) {
  Matcher matcher = constraint.start();
  size_t at = 0;
  return matcher.accept_bytes(text, &at) && matcher.can_end();
}

const char* const kSchemas[] = {
    R"({"type":"object","properties":{"id":{"type":"integer","minimum":0,"maximum":120},
        "name":{"type":"string","maxLength":5}},"required":["id"],"additionalProperties":false})",
    R"({"type":"object","additionalProperties":{"type":"boolean"},"minProperties":1,
        "maxProperties":3})",
    R"({"type":"array","items":{"enum":["a","b","abc",1]},"uniqueItems":true,"minItems":2,
        "maxItems":3})",
    R"({"oneOf":[{"type":"object","properties":{"id":{"const":"a"}},"required":["id"],
        "maxProperties":1},{"type":"array","items":{"type":"number","multipleOf":0.5,
        "exclusiveMaximum":20,"minimum":-3},"maxItems":2}]})",
    R"({"type":"string","pattern":"^(ab|c)+$","minLength":2,"maxLength":6})",
    R"({"anyOf":[{"type":"null"},{"type":"string","format":"date"},{"type":"boolean"}]})",
    R"({"type":"array","contains":{"const":true},"maxItems":3,"items":{"type":"boolean"}})",
    R"({"type":"object","patternProperties":{"^i":{"type":"integer","maximum":9,"minimum":-9}},
        "propertyNames":{"maxLength":3},"maxProperties":2,
        "additionalProperties":{"type":"array","maxItems":1,"items":{"type":"null"}}})",
    R"({"type":"object","properties":{"id":{"type":"boolean"}},"required":["id"],"maxProperties":2,
        "additionalProperties":{"maxLength":2,"type":"string"},
        "if":{"properties":{"id":{"const":true}}},"then":{"required":["name"]},
        "else":{"not":{"required":["name"]}}})",
};

TEST(Masks, say_of_each_token_what_accepting_it_says) {
  std::mt19937 random(11);
  const auto& trie = *mixed_trie();
  MaskWords mask(trie.words());
  for (const char* schema : kSchemas) {
    const auto constraint = compile(schema);
    ASSERT_NE(constraint, nullptr);
    for (int run = 0; run < 12; ++run) {
      Matcher matcher = constraint->start();
      for (int step = 0; step < 40 && !matcher.ended(); ++step) {
        ASSERT_TRUE(matcher.fill_mask(mask).ok());
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < trie.vocab_size(); ++id) {
          const bool bit = (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
          Matcher probe = matcher.fork();
          ASSERT_EQ(probe.accept(id), bit) << schema << " token " << trie.bytes(id);
          if (bit) allowed.push_back(id);
        }
        ASSERT_FALSE(allowed.empty()) << "dead end in " << schema;
        const bool end = allowed[0] == kEnd && random() % 2 == 0;
        ASSERT_TRUE(matcher.accept(end ? kEnd : allowed[random() % allowed.size()]));
      }
    }
  }
}

TEST(Matcher, going_back_leaves_no_trace) {
  std::mt19937 random(5);
  const auto& trie = *mixed_trie();
  MaskWords mask(trie.words());
  MaskWords again(trie.words());
  for (const char* schema : kSchemas) {
    const auto constraint = compile(schema);
    Matcher matcher = constraint->start();
    for (int step = 0; step < 30 && !matcher.ended(); ++step) {
      ASSERT_TRUE(matcher.fill_mask(mask).ok());
      int taken = 0;
      for (int draft = 0; draft < 20 && taken < 4; ++draft) {
        const auto id = static_cast<TokenId>(random() % static_cast<uint32_t>(trie.vocab_size()));
        taken += matcher.accept(id) ? 1 : 0;
      }
      matcher.rollback(taken);
      ASSERT_TRUE(matcher.fill_mask(again).ok());
      ASSERT_EQ(mask, again) << schema;
      for (TokenId id = trie.vocab_size() - 1; id >= 0; --id) {
        if (matcher.accept(id)) break;
      }
    }
  }
}

TEST(Json, whitespace_is_bounded_and_the_end_is_the_end) {
  const auto constraint = compile(R"({"type":"array","items":{"type":"integer"}})");
  EXPECT_FALSE(accepts(*constraint, "[1,\n        2]"));
  EXPECT_TRUE(accepts(*constraint, "[1,\n       2]"));
  EXPECT_FALSE(accepts(*constraint, "[1] "));
  EXPECT_FALSE(accepts(*constraint, "[1,]"));
  EXPECT_FALSE(accepts(*constraint, "[01]"));
}

TEST(Json, no_key_comes_twice) {
  const auto free = compile(R"({"type":"object","properties":{"id":{"type":"integer"}}})");
  EXPECT_FALSE(accepts(*free, R"({"id":1,"id":2})"));
  EXPECT_FALSE(accepts(*free, R"({"x":1,"id":2,"x":3})"));
  EXPECT_FALSE(accepts(*free, R"({"x":1,"\u0078":3})"));
  EXPECT_FALSE(accepts(*free, R"({"id":1,"\u0069d":3})"));
  EXPECT_TRUE(accepts(*free, R"({"x":1,"id":2,"xx":{"x":3}})"));
}

TEST(Json, strings_written_by_escapes_are_what_they_mean) {
  const auto constraint = compile(R"({"type":"string","pattern":"^a\u00e9\\n?$","maxLength":3})");
  EXPECT_TRUE(accepts(*constraint, R"("a\u00e9")"));
  EXPECT_TRUE(accepts(*constraint, R"("\u0061é\n")"));
  EXPECT_FALSE(accepts(*constraint, R"("a\u00e8")"));
  const auto one = compile(R"({"type":"string","minLength":1,"maxLength":1})");
  EXPECT_TRUE(accepts(*one, R"("\ud83d\ude00")"));
  EXPECT_TRUE(accepts(*one, "\"\xf0\x9f\x98\x80\""));
  EXPECT_FALSE(accepts(*one, R"("\ud83d")"));
  EXPECT_FALSE(accepts(*one, R"("\ude00")"));
  EXPECT_FALSE(accepts(*one, "\"\xc3\""));
}

TEST(Json, lengths_are_counted_not_unrolled) {
  const auto constraint = compile(R"({"type":"string","maxLength":100000,"minLength":3})");
  const std::string longest = '"' + std::string(100000, 'x') + '"';
  EXPECT_TRUE(accepts(*constraint, longest));
  EXPECT_FALSE(accepts(*constraint, '"' + std::string(100001, 'x') + '"'));
  const auto items = compile(R"({"type":"array","maxItems":50000,"items":{"const":1}})");
  std::string text = "[1";
  for (int i = 1; i < 1000; ++i) text += ",1";
  EXPECT_TRUE(accepts(*items, text + "]"));
}

struct Refused {
  const char* schema;
  const char* pointer;
  const char* keyword;
};

TEST(Schema, what_cannot_be_enforced_is_refused_by_name) {
  for (const Refused& test : std::initializer_list<Refused>{
           {R"({"properties":{"a/b":{"pattern":"(a)\\1"}}})", "#/properties/a~1b", "pattern"},
           {R"({"items":{"format":"idn-email"}})", "#/items", "format"},
           {R"({"$ref":"other.json"})", "#", "$ref"},
           {R"({"$ref":"#/$defs/x"})", "#", "$ref"},
           {R"({"$ref":"#"})", "#", "$ref"},
           {R"({"allOf":[{"$ref":"#"}]})", "#", "$ref"},
           {R"({"type":"strin"})", "#", "type"},
           {R"({"minLength":-1})", "#", "minLength"},
           {R"({"minLength":"1"})", "#", "minLength"},
           {R"({"required":true})", "#", "required"},
           {R"({"properties":[]})", "#", "properties"},
           {R"({"anyOf":{}})", "#", "anyOf"},
           {R"({"items":3})", "#/items", ""},
           {R"({"$dynamicRef":"#x"})", "#", "$dynamicRef"},
           {R"({"patternProperties":{"[":{}}})", "#", "patternProperties"},
           {R"({"multipleOf":0})", "#", "multipleOf"}}) {
    const CompiledSchema compiled = compile_schema(*parse_json(test.schema));
    EXPECT_EQ(compiled.program, nullptr) << test.schema;
    EXPECT_EQ(compiled.refusal.pointer, test.pointer) << test.schema;
    EXPECT_EQ(compiled.refusal.keyword, test.keyword) << test.schema;
    EXPECT_FALSE(compiled.refusal.reason.empty());
  }
  const CompiledSchema unknown = compile_schema(*parse_json(R"({"format":"slug"})"));
  ASSERT_NE(unknown.program, nullptr);
  EXPECT_EQ(unknown.warnings.size(), 1u);
}

TEST(Schema, nothing_that_fits_is_refused_when_it_is_put_to_use) {
  for (const char* schema :
       {"false", R"({"type":"string","minLength":3,"maxLength":2})",
        R"({"allOf":[{"type":"string"},{"type":"null"}]})",
        R"({"type":"object","required":["a"],"properties":{"a":false}})",
        R"({"type":"array","minItems":1,"items":false})",
        R"({"type":"integer","minimum":3,"maximum":2})",
        R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4})",
        R"({"type":"string","allOf":[{"pattern":"^a+$"},{"pattern":"^b+$"}]})"}) {
    const CompiledSchema compiled = compile_schema(*parse_json(schema));
    ASSERT_NE(compiled.program, nullptr) << schema;
    EXPECT_FALSE(json_constraint(mixed_trie(), compiled.program).ok()) << schema;
  }
}

TEST(Schema, hostile_ones_end_soon) {
  std::string deep = "{}";
  for (int depth = 0; depth < 150; ++depth) deep = R"({"items":)" + deep + "}";
  const auto deep_json = parse_json(deep, {.depth_max = 400});
  ASSERT_TRUE(deep_json.ok());
  EXPECT_NE(compile_schema(*deep_json).program, nullptr);
  for (int depth = 150; depth < 250; ++depth) deep = R"({"items":)" + deep + "}";
  EXPECT_EQ(compile_schema(*parse_json(deep, {.depth_max = 400})).program, nullptr);
  std::string nested = R"({"type":"string"})";
  for (int depth = 0; depth < 12; ++depth) {
    nested = R"({"oneOf":[)" + nested + R"(,{"type":"integer","minimum":)" +
             std::to_string(depth) + "}]}";
  }
  EXPECT_NE(compile(nested), nullptr);
  const auto cyclic = compile(
      R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},
          "patternProperties":{"^x":{"$ref":"#/$defs/a"}}},
          "b":{"type":"array","items":{"$ref":"#/$defs/a"}}}})");
  EXPECT_TRUE(accepts(*cyclic, R"({"b":[{"xa":{}},{"b":[]}]})"));
  EXPECT_FALSE(accepts(*cyclic, R"({"b":[{"xa":1}]})"));
}

}  // namespace
}  // namespace lineshaft::decoding
