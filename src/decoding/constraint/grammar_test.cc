// Grammars, choices and regular expressions, by the golden GBNF strings and by hand.
#include "decoding/constraint/grammar.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "decoding/constraint/constraint.h"

namespace lineshaft::decoding {
namespace {

std::shared_ptr<const TokenTrie> byte_trie() {
  static const auto trie = [] {
    Vocab vocab;
    for (int byte = 0; byte < 256; ++byte) vocab.bytes.emplace_back(1, static_cast<char>(byte));
    vocab.kinds.assign(256, TokenKind::kNormal);
    vocab.bytes.emplace_back("<eos>");
    vocab.kinds.push_back(TokenKind::kControl);
    vocab.eos = 256;
    vocab.end_of_generation = {256};
    return std::make_shared<const TokenTrie>(vocab);
  }();
  return trie;
}

bool accepts(const std::string& grammar, const std::string& text) {
  auto parsed = parse_grammar(grammar);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return false;
  GrammarMachine machine(*std::move(parsed));
  int32_t state = machine.start();
  for (const char c : text) {
    if (state < 0) return false;
    state = machine.step(state, static_cast<uint8_t>(c));
  }
  return state >= 0 && machine.can_end(state);
}

TEST(Grammar, golden_strings) {
  std::ifstream in("tests/golden/schema/gbnf.jsonl");
  int grammars = 0;
  for (std::string line; std::getline(in, line); ++grammars) {
    const Json row = *parse_json(line);
    for (const Json& test_case : row["cases"]) {
      const std::string text = test_case["text"];
      EXPECT_EQ(accepts(row["grammar"], text), test_case["accept"].get<bool>())
          << row["id"] << ": " << text;
    }
  }
  EXPECT_GE(grammars, 14);
}

TEST(Grammar, left_and_right_recursion) {
  const std::string left = "root ::= sum\nsum ::= sum \"+\" [0-9] | [0-9]\n";
  EXPECT_TRUE(accepts(left, "1+2+3"));
  EXPECT_FALSE(accepts(left, "1+2+"));
  const std::string right = "root ::= list\nlist ::= \"a\" list | \"\"\n";
  EXPECT_TRUE(accepts(right, std::string(5000, 'a')));
  const std::string hidden = "root ::= a\na ::= b a \"x\" | \"y\"\nb ::= \"\" | \"z\"\n";
  EXPECT_TRUE(accepts(hidden, "yxxx"));
  EXPECT_TRUE(accepts(hidden, "zzyxx"));
  EXPECT_FALSE(accepts(hidden, "zzyx"));
  const std::string mutual = "root ::= p\np ::= q \"1\" | \"s\"\nq ::= p \"2\"\n";
  EXPECT_TRUE(accepts(mutual, "s2121"));
  EXPECT_FALSE(accepts(mutual, "s212"));
  const std::string nested = "root ::= \"(\" root \")\" | \"\"\n";
  EXPECT_TRUE(accepts(nested, "((()))"));
  EXPECT_FALSE(accepts(nested, "((())"));
}

TEST(Grammar, right_recursion_keeps_its_places_few) {
  auto grammar = parse_grammar("root ::= ws \"x\"\nws ::= [ ] ws | \"\"\n");
  GrammarMachine machine(*std::move(grammar));
  int32_t state = machine.step(machine.start(), ' ');
  const int32_t first = machine.step(state, ' ');
  state = first;
  for (int i = 0; i < 100; ++i) state = machine.step(state, ' ');
  EXPECT_EQ(state, first);
}

TEST(Grammar, lark) {
  const std::string lark =
      "// a sum\nstart: term (\"+\" term)*\n?term: NUMBER | \"(\" start \")\"\n"
      "NUMBER: /[0-9]+/\nWS: \" \"+\n%ignore WS\n";
  EXPECT_TRUE(accepts(lark, "1+2"));
  EXPECT_TRUE(accepts(lark, " 1 + ( 22+3 ) "));
  EXPECT_FALSE(accepts(lark, "1 2"));
  EXPECT_TRUE(accepts("start: \"a\"~2..3 [\"b\"]\n", "aab"));
  EXPECT_FALSE(accepts("start: \"a\"~2..3 [\"b\"]\n", "ab"));
}

TEST(Grammar, faults_name_their_line) {
  for (const char* text : {"root ::= \"a", "root ::= [a", "root ::= (\"a\"", "root ::= x\n",
                           "root ::= \"a\" root\n", "other ::= \"a\"\n", "root ::= \"a\"{3,1}\n",
                           "root = \"a\"\n", "start: /a(/\n", ""}) {
    EXPECT_FALSE(parse_grammar(text).ok()) << text;
  }
  const auto bad = parse_grammar("root ::= a\na ::= \"x\nb ::= \"y\"\n");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(message_of(bad.status()).find("line 2"), std::string::npos) << bad.status();
  EXPECT_FALSE(parse_grammar("root ::= " + std::string(100'000, '(')).ok());
}

TEST(Regex, whole_texts_by_masks) {
  const auto constraint = regex_constraint(byte_trie(), "(ab|cd)+e?");
  ASSERT_TRUE(constraint.ok());
  Matcher matcher = (*constraint)->start();
  MaskWords mask(byte_trie()->words());
  const auto allowed = [&] {
    EXPECT_TRUE(matcher.fill_mask(mask).ok());
    std::string out;
    for (int id = 0; id <= 256; ++id) {
      if ((mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0) continue;
      out += id == 256 ? '$' : static_cast<char>(id);
    }
    return out;
  };
  EXPECT_EQ(allowed(), "ac");
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_EQ(allowed(), "b");
  EXPECT_FALSE(matcher.accept('a'));
  EXPECT_TRUE(matcher.accept('b'));
  EXPECT_EQ(allowed(), "ace$");
  Matcher other = matcher.fork();
  EXPECT_TRUE(other.accept('e'));
  EXPECT_TRUE(other.accept(256));
  EXPECT_TRUE(other.ended());
  other.rollback(2);
  EXPECT_TRUE(other.accept('c'));
  EXPECT_EQ(allowed(), "ace$");
}

TEST(Regex, what_needs_backtracking_is_refused) {
  for (const char* pattern : {"(a)\\1", "(?<=a)b", "a\\bb", "x(?=y)z", "a{2,1}", "[b-a]", "(", "a)",
                              "*a", "\\y", "(?i)a"}) {
    EXPECT_FALSE(regex_constraint(byte_trie(), pattern).ok()) << pattern;
  }
  EXPECT_FALSE(regex_constraint(byte_trie(), std::string(100'000, '(')).ok());
  EXPECT_FALSE(regex_constraint(byte_trie(), "((((a{999}){999}){999}){999})").ok());
}

TEST(Choice, exactly_one_text) {
  auto grammar = choice_grammar({"yes", "yes, sir", "no"});
  ASSERT_TRUE(grammar.ok());
  const auto constraint = grammar_constraint(byte_trie(), *std::move(grammar));
  for (const auto& [text, good] : std::vector<std::pair<std::string, bool>>{
           {"yes", true}, {"yes, sir", true}, {"no", true}, {"yes,", false}, {"n", false}}) {
    Matcher matcher = (*constraint)->start();
    size_t at = 0;
    EXPECT_TRUE(matcher.accept_bytes(text, &at));
    EXPECT_EQ(matcher.can_end(), good) << text;
  }
  EXPECT_FALSE(choice_grammar({}).ok());
}

}  // namespace
}  // namespace lineshaft::decoding
