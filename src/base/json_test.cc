// At stake: no document from outside may crash, hang or slip past a limit, and nothing that we
// print may be anything but JSON.
#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/rng.h"
#include "base/utf8.h"

namespace lineshaft {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = parse_json(text, limits);
  return parsed.ok() ? "" : std::string(message_of(parsed.status()));
}

TEST(Json, keeps_order_and_round_trips) {
  const std::string text = R"({"b":[1,-2,3.5,true,null],"a":{"z":"\u00e9\n"}})";
  const auto parsed = parse_json(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(write_json(*parsed), "{\"b\":[1,-2,3.5,true,null],\"a\":{\"z\":\"é\\n\"}}");
}

TEST(Json, says_where_it_is_broken) {
  EXPECT_NE(error_of("{\"a\": 1,\n \"b\" 2}").find("line 2, column 6"), std::string::npos)
      << error_of("{\"a\": 1,\n \"b\" 2}");
  for (const char* bad : {"", "{", "[1,]", "nul", "{\"a\":1}x", "'a'", "01", "1e400", "-1e999",
                          "\"\\ud83d\"", "\"\\udc00\"", "\"\\x\"", "\"\n\"", "NaN", "{1:2}"}) {
    EXPECT_NE(error_of(bad), "") << bad;
  }
}

TEST(Json, refuses_text_that_is_not_utf8) {
  EXPECT_NE(error_of("{\"a\":\"\xc4\xe3\"}").find("not UTF-8 at line 1, column 7 (byte 6)"),
            std::string::npos);
  EXPECT_NE(error_of("\"\xed\xa0\x80\""), "");
}

TEST(Json, refuses_a_key_given_twice_but_not_in_different_objects) {
  EXPECT_EQ(error_of(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})"), "");
  EXPECT_NE(error_of(R"({"x":1,"a":1,"b":2,"a":3})").find("'a' twice"), std::string::npos);
  EXPECT_NE(error_of(R"({"a":1,"\u0061":3})"), "");
}

TEST(Json, the_last_of_equal_keys_wins_where_the_first_stood_when_asked) {
  const JsonLimits limits{.last_key_wins = true};
  const auto json =
      parse_json(R"({"b":1,"a":{"x":1,"x":2},"b":3,"c":[{"\u0062":4,"b":5}]})", limits);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(write_json(*json), R"({"b":3,"a":{"x":2},"c":[{"b":5}]})");
}

TEST(Json, holds_its_limits) {
  JsonLimits limits{.bytes_max = 100'000, .depth_max = 8, .values_max = 1000};
  EXPECT_EQ(error_of("[[[[[[[[1]]]]]]]]", limits), "");
  EXPECT_NE(error_of("[[[[[[[[[1]]]]]]]]]", limits), "");
  EXPECT_NE(error_of(std::string(90'000, '['), limits), "");
  std::string many = "[0";
  for (int i = 0; i < 2000; ++i) many += ",0";
  EXPECT_NE(error_of(many + "]", limits).find("1000 values"), std::string::npos);
  EXPECT_NE(error_of(std::string(100'001, ' '), limits).find("100001 bytes"), std::string::npos);
}

TEST(Json, many_keys_take_no_quadratic_time) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += fmt::format("{}\"k{}\":{}", i ? "," : "", i, i);
  text += "}";
  const auto parsed = parse_json(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->size(), 300'000u);
}

TEST(Json, writer_repairs_bad_bytes_and_numbers) {
  Json value = {{"a", "x\xff\xfe"}, {"b", std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(write_json(value), "{\"a\":\"x\xef\xbf\xbd\xef\xbf\xbd\",\"b\":null}");
  std::string out;
  append_json_string(out, "q\"\\\n\x01\xe2\x82");
  EXPECT_EQ(out, "\"q\\\"\\\\\\n\\u0001\xef\xbf\xbd\"");
}

TEST(Json, any_bytes_print_as_a_string_that_reads_back) {
  RngKey key(7);
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    std::string bytes;
    const uint64_t length = key.split(trial).below(0, 24);
    for (uint64_t i = 0; i < length; ++i) {
      bytes.push_back(static_cast<char>(key.split(trial).below(i + 1, 256)));
    }
    std::string out;
    append_json_string(out, bytes);
    const auto parsed = parse_json(out);
    ASSERT_TRUE(parsed.ok()) << out;
    EXPECT_EQ(parsed->get<std::string>(), repair_utf8(bytes));
    EXPECT_EQ(write_json(Json(bytes)).find('\xff'), std::string::npos);
  }
}

TEST(Json, random_damage_never_throws) {
  const std::string seed_text = R"({"a":[1,2.5,"x\u00e9",{"b":null}],"c":true})";
  RngKey key(11);
  for (uint64_t trial = 0; trial < 5000; ++trial) {
    std::string text = seed_text;
    for (uint64_t i = 0; i < 3; ++i) {
      const RngKey draw = key.split(trial * 8 + i);
      text[draw.below(0, text.size())] = static_cast<char>(draw.below(1, 256));
    }
    const auto parsed = parse_json(text);
    if (parsed.ok()) {
      EXPECT_TRUE(parse_json(write_json(*parsed)).ok());
    }
  }
}

TEST(Json, floats_print_in_their_own_shortest_form) {
  std::string out;
  append_json_float(out, 0.1f);
  out += ' ';
  append_json_float(out, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(out, "0.1 null");
  EXPECT_EQ(write_json(json_float(0.1f)), "0.1");
  EXPECT_EQ(write_json(json_float(NAN)), "null");
}

TEST(Utf8, finds_and_repairs_each_maximal_subpart_once) {
  EXPECT_EQ(valid_utf8_prefix("a\xe2\x82\xac\xf0\x9f\x98\x80"), 8u);
  EXPECT_EQ(valid_utf8_prefix("ab\xc0\x80"), 2u);
  EXPECT_EQ(valid_utf8_prefix("ab\xf4\x90\x80\x80"), 2u);
  // Unicode 15, section 3.9, table 3-8.
  EXPECT_EQ(repair_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "\xef\xbf\xbd\x41");
  EXPECT_EQ(repair_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x41");
}

}  // namespace
}  // namespace lineshaft
