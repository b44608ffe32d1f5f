// At stake: a cache of packed weights may forget, never lie: whatever lies at its path, the weights
// are those of the model file, bit for bit.
#include "model/packed_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/spec_loader.h"
#include "model/weights.h"
#include "support/gguf_writer.h"

namespace lineshaft::model {
namespace {

using kernels::WeightType;
using testing::tiny_file;
using testing::tiny_model;

class PackedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "lineshaft_packed_file_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "tiny.lspack").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // All packed bytes of the model in order.
  std::vector<std::byte> load(uint64_t seed, const std::string& path) {
    const auto file = tiny_file(tiny_model(ModelFamily::kGemma3, WeightType::kQ4_K, seed));
    const auto weights = Weights::load(file, *load_spec(*file), team_, {}, path);
    EXPECT_TRUE(weights.ok()) << weights.status();
    std::vector<std::byte> all;
    const auto add = [&](const kernels::PackedMatrix& m) {
      all.insert(all.end(), m.bytes_view().begin(), m.bytes_view().end());
    };
    for (const auto& layer : (*weights)->layers()) {
      for (const auto* m : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up,
                            &layer.down}) {
        add(*m);
      }
    }
    add((*weights)->output());
    return all;
  }

  std::string content() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(),
                                                 static_cast<std::streamsize>(bytes.size()));
  }

  ThreadTeam team_{2};
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(PackedFileTest, GivesBackWhatWasPacked) {
  const auto file = tiny_file(tiny_model(ModelFamily::kLlama, WeightType::kQ6_K, 1));
  const auto weights = Weights::load(file, *load_spec(*file), team_, {}, path_);
  ASSERT_TRUE(weights.ok());
  const auto reader = PackedFileReader::open(path_);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->fingerprint(), (*weights)->spec().fingerprint);
  const kernels::PackedMatrix& q = (*weights)->layers()[0].q;
  kernels::PackedMatrix again(q.type(), q.outputs(), q.k());
  ASSERT_TRUE(reader->read(again, team_));
  EXPECT_TRUE(std::ranges::equal(q.bytes_view(), again.bytes_view()));
  kernels::PackedMatrix other(q.type(), q.outputs() + 16, q.k());
  EXPECT_FALSE(reader->read(other, team_)) << "the next matrix has another shape";
}

TEST_F(PackedFileTest, IsWrittenOnceAndThenRead) {
  const auto plain = load(3, "");
  EXPECT_EQ(load(3, path_), plain);
  const auto written = std::filesystem::last_write_time(path_);
  EXPECT_EQ(load(3, path_), plain);
  EXPECT_EQ(std::filesystem::last_write_time(path_), written);
}

TEST_F(PackedFileTest, DamagedCutOrForeignFilesAreReplaced) {
  const auto plain = load(3, path_);
  const std::string good = content();
  std::vector<std::string> bad = {"", "lspack1\n", good.substr(0, good.size() - 1),
                                  good.substr(0, good.size() / 2)};
  for (const size_t at : {size_t{0}, size_t{9}, size_t{45}, size_t{60}, size_t{70}, size_t{200},
                          good.size() / 2, good.size() - 3}) {
    bad.push_back(good);
    bad.back()[at] ^= 0x10;
  }
  load(4, path_);   // the same shapes, other numbers
  bad.push_back(content());
  for (size_t i = 0; i < bad.size(); ++i) {
    put(bad[i]);
    EXPECT_EQ(load(3, path_), plain) << i;
    EXPECT_EQ(content(), good) << i;
  }
}

TEST_F(PackedFileTest, APlaceThatCannotBeWrittenCostsNothingElse) {
  const auto plain = load(3, "");
  EXPECT_EQ(load(3, (folder_ / "missing" / "x.lspack").string()), plain);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 0);
}

}  // namespace
}  // namespace lineshaft::model
