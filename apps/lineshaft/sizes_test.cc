// At stake: a size read with the wrong unit asks for a thousand times the memory.
#include "lineshaft/sizes.h"

#include <gtest/gtest.h>

namespace lineshaft::app {
namespace {

TEST(ParseSize, UnderstandsUnits) {
  EXPECT_EQ(*parse_size("512"), 512);
  EXPECT_EQ(*parse_size("64k"), 65'536);
  EXPECT_EQ(*parse_size("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(*parse_size("8gb"), 8'000'000'000);
  EXPECT_EQ(*parse_size("1.5M"), 3 << 19);
  EXPECT_EQ(*parse_size("auto"), 0);
}

TEST(ParseSize, RefusesTheRest) {
  for (const char* text : {"", "k", "-1", "1x", "1kk", "nan", "inf", "1 k", "0x10", "1e3"}) {
    EXPECT_EQ(parse_size(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(parse_size("99999999999999T").status().code(), StatusCode::kOutOfRange);
}

TEST(Nearest, FindsWhatWasMeantAndNothingElse) {
  const std::vector<std::string> names = {"--ctx-size", "--threads", "--temperature"};
  EXPECT_EQ(nearest("--ctx-sise", names), "--ctx-size");
  EXPECT_EQ(nearest("--thraeds", names), "--threads");
  EXPECT_EQ(nearest("--gpu-layers", names), "");
}

TEST(EditDistance, CountsSwapsOnce) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
}

}  // namespace
}  // namespace lineshaft::app
