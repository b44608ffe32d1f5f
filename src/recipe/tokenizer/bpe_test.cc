// At stake: the merge order is the tokenizer. Fast merges against a plain twin, and time that does
// not explode on long words.
#include "recipe/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <string>

#include "base/rng.h"

namespace lineshaft::recipe {
namespace {

using Ids = std::vector<TokenId>;

// Merges over the letters a, b, c (ids 0, 1, 2) drawn at random from tokens made before.
BpeData random_data(RngKey key, int merge_count) {
  BpeData data;
  data.byte_ids.fill(-1);
  std::vector<std::string> tokens = {"a", "b", "c"};
  for (TokenId id = 0; id < 3; ++id) data.byte_ids['a' + id] = id;
  for (int i = 0; i < merge_count; ++i) {
    const auto left = static_cast<TokenId>(key.below(2 * i, tokens.size()));
    const auto right = static_cast<TokenId>(key.below(2 * i + 1, tokens.size()));
    const std::string joined = tokens[left] + tokens[right];
    // Equal strings are one token, as in real vocabularies, so that several pairs give it.
    auto it = std::find(tokens.begin(), tokens.end(), joined);
    const auto result = static_cast<TokenId>(it - tokens.begin());
    if (it == tokens.end()) tokens.push_back(joined);
    data.merges.push_back({left, right, result});
  }
  return data;
}

// The definition: merge the pair of lowest rank, the leftmost of equals, until there is none.
Ids merge_plainly(const BpeData& data, std::string_view piece) {
  std::map<std::pair<TokenId, TokenId>, size_t> ranks;
  for (size_t i = 0; i < data.merges.size(); ++i) {
    ranks.emplace(std::pair(data.merges[i].left, data.merges[i].right), i);
  }
  Ids ids;
  for (const char c : piece) ids.push_back(data.byte_ids[static_cast<uint8_t>(c)]);
  for (;;) {
    size_t best = data.merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = ranks.find({ids[i], ids[i + 1]});
      if (it == ranks.end() || it->second >= best) continue;
      best = it->second;
      at = i;
    }
    if (best == data.merges.size()) return ids;
    ids[at] = data.merges[best].result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, merges_as_the_definition_does_for_short_and_long_pieces) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const RngKey key = RngKey(11).split(seed);
    const BpeData data = random_data(key.split(1), 5 + static_cast<int>(key.below(0, 60)));
    const Bpe bpe(data);
    Bpe::Scratch scratch;
    for (uint64_t i = 0; i < 20; ++i) {
      const RngKey text_key = key.split(2 + i);
      std::string piece;
      const uint64_t length = 1 + text_key.below(0, i % 2 == 0 ? 12 : 300);
      for (uint64_t j = 0; j < length; ++j) {
        piece.push_back(static_cast<char>('a' + text_key.below(1 + j, 3)));
      }
      Ids got;
      bpe.encode_piece(piece, scratch, got);
      ASSERT_EQ(got, merge_plainly(data, piece)) << "seed " << seed << ": " << piece;
    }
  }
}

TEST(Bpe, of_equal_pairs_merges_the_leftmost_first) {
  BpeData data;
  data.byte_ids.fill(-1);
  data.byte_ids['a'] = 0;
  data.merges = {{0, 0, 1}};
  const Bpe bpe(data);
  Bpe::Scratch scratch;
  Ids short_ids;
  bpe.encode_piece("aaa", scratch, short_ids);
  EXPECT_EQ(short_ids, (Ids{1, 0}));
  Ids long_ids;
  bpe.encode_piece(std::string(101, 'a'), scratch, long_ids);
  Ids want(50, 1);
  want.push_back(0);
  EXPECT_EQ(long_ids, want);
}

TEST(Bpe, a_byte_without_a_token_is_dropped_or_becomes_unknown) {
  BpeData data;
  data.byte_ids.fill(-1);
  data.byte_ids['a'] = 0;
  data.merges = {{0, 0, 1}};
  Bpe::Scratch scratch;
  Ids ids;
  Bpe(data).encode_piece("axxa", scratch, ids);
  EXPECT_EQ(ids, (Ids{1}));
  data.unknown = 9;
  ids.clear();
  Bpe(data).encode_piece("axxa", scratch, ids);
  EXPECT_EQ(ids, (Ids{0, 9, 9, 0}));
  data.fuse_unknown = true;
  ids.clear();
  Bpe(data).encode_piece("axxa", scratch, ids);
  EXPECT_EQ(ids, (Ids{0, 9, 0}));
}

TEST(Bpe, characters_fall_back_to_bytes) {
  BpeData data;
  data.byte_level = false;
  data.byte_ids.fill(-1);
  for (int b = 0; b < 256; ++b) data.byte_ids[b] = 100 + b;
  data.char_ids = {{'a', 1}, {0xe9, 2}};
  data.merges = {{1, 2, 3}};
  Bpe::Scratch scratch;
  Ids ids;
  Bpe(data).encode_piece("aéa€\xff", scratch, ids);
  EXPECT_EQ(ids, (Ids{3, 1, 100 + 0xe2, 100 + 0x82, 100 + 0xac, 100 + 0xff}));
}

TEST(Bpe, a_mebibyte_without_a_border_takes_about_four_times_a_quarter_of_it) {
  BpeData data;
  data.byte_ids.fill(-1);
  data.byte_ids['a'] = 0;
  for (TokenId id = 0; id < 7; ++id) data.merges.push_back({id, id, id + 1});
  const Bpe bpe(data);
  Bpe::Scratch scratch;
  const auto seconds = [&](size_t bytes) {
    Ids ids;
    const std::clock_t start = std::clock();  // of this process: neighbours do not count
    bpe.encode_piece(std::string(bytes, 'a'), scratch, ids);
    EXPECT_EQ(ids, Ids(bytes / 128, 7));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  seconds(1 << 18);  // memory is touched
  const double quarter = seconds(1 << 18);
  // Quadratic time would be sixteen times.
  EXPECT_LT(seconds(1 << 20), 10 * quarter + 1.0);
}

}  // namespace
}  // namespace lineshaft::recipe
