// Every labelled instance of tests/golden/schema against the compiled schemas.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "decoding/constraint/constraint.h"

namespace lineshaft::decoding {
namespace {

// All single bytes, and some longer texts as a tokenizer would have them.
std::shared_ptr<const TokenTrie> small_trie() {
  static const auto trie = [] {
    Vocab vocab;
    for (int byte = 0; byte < 256; ++byte) vocab.bytes.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"\"}", "\",", "\": ", "{\"", "[\"", "\":", "name", "type", " \"", "12",
                             "00", "true", "null", "false", "\\u00", "é", "],", "}}", "\": \""}) {
      vocab.bytes.emplace_back(text);
    }
    vocab.kinds.assign(vocab.bytes.size(), TokenKind::kNormal);
    vocab.eos = vocab.size();
    vocab.bytes.emplace_back("<eos>");
    vocab.kinds.push_back(TokenKind::kControl);
    vocab.end_of_generation = {vocab.eos};
    return std::make_shared<const TokenTrie>(vocab);
  }();
  return trie;
}

struct Tally {
  int schemas = 0;
  int refused = 0;
  int right = 0;            // compiled, and every instance judged rightly
  int false_accepts = 0;    // instances
  int false_rejects = 0;
  std::map<std::string, int> reasons;
};

bool accepts(const Constraint& constraint, const std::string& text, size_t* at) {
  // In pieces of random length: how a text is cut into tokens must not matter.
  static std::mt19937 random(7);
  Matcher matcher = constraint.start();
  for (size_t from = 0; from < text.size();) {
    const size_t length = std::min<size_t>(1 + random() % 5, text.size() - from);
    const bool taken = matcher.accept_bytes(std::string_view(text).substr(from, length), at);
    *at += from;
    if (!taken) return false;
    from += length;
  }
  *at = text.size();
  return matcher.can_end();
}

Tally judge(const std::string& path, bool talk) {
  Tally tally;
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  for (std::string line; std::getline(in, line);) {
    const auto row = parse_json(line, {.depth_max = 256});
    if (!row.ok()) {
      ADD_FAILURE() << row.status();
      continue;
    }
    const std::string id = (*row)["id"];
    ++tally.schemas;
    const CompiledSchema compiled = compile_schema((*row)["schema"]);
    if (compiled.program == nullptr) {
      ++tally.refused;
      ++tally.reasons[compiled.refusal.keyword + ": " + compiled.refusal.reason];
      if (talk) {
        std::cout << "refused " << id << " " << compiled.refusal.pointer << " "
                  << compiled.refusal.keyword << ": " << compiled.refusal.reason << "\n";
      }
      continue;
    }
    const auto constraint = json_constraint(small_trie(), compiled.program);
    bool right = true;
    for (const Json& instance : (*row)["instances"]) {
      size_t at = 0;
      const std::string text = instance["text"];
      const bool valid = instance["valid"];
      const bool accepted = constraint.ok() && accepts(**constraint, text, &at);
      if (accepted == valid) continue;
      right = false;
      ++(valid ? tally.false_rejects : tally.false_accepts);
      if (talk) {
        std::cout << (valid ? "rejects " : "ACCEPTS ") << id << " at " << at << " of "
                  << text.substr(0, 300) << "\n";
      }
    }
    tally.right += right ? 1 : 0;
  }
  std::cout << path << ": " << tally.schemas << " schemas, " << tally.refused << " refused, "
            << tally.right << " entirely right, instances falsely accepted "
            << tally.false_accepts << ", falsely rejected " << tally.false_rejects << "\n";
  return tally;
}

TEST(Golden, json_schema_test_suite) {
  const Tally tally = judge("tests/golden/schema/draft2020_12.jsonl", true);
  EXPECT_EQ(tally.false_accepts, 0);
  EXPECT_GE(tally.right + tally.refused, tally.schemas * 95 / 100);
}

TEST(Golden, probes) {
  const Tally tally = judge("tests/golden/schema/probes.jsonl", true);
  EXPECT_EQ(tally.right, tally.schemas);
}

TEST(Golden, schemas_of_the_real_world) {
  const Tally tally = judge("tests/golden/schema/realworld.jsonl", true);
  EXPECT_EQ(tally.false_accepts, 0);
  EXPECT_EQ(tally.right + tally.refused, tally.schemas);
  EXPECT_GE(tally.right, tally.schemas * 90 / 100);
}

}  // namespace
}  // namespace lineshaft::decoding
