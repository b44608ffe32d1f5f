// What is at stake: model files come from strangers. Whatever the bytes say, the reader answers
// with a sentence, stays inside the file and spends no memory on counts that the file can't back.
#include "model/gguf.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "model/spec_loader.h"
#include "model/weights.h"
#include "support/gguf_writer.h"

namespace lineshaft::model {
namespace {

using testing::GgufWriter;
using testing::tiny_gguf;
using testing::tiny_model;
using Bytes = std::vector<std::byte>;

Bytes tensor_data(size_t bytes) { return Bytes(bytes, std::byte{1}); }

GgufWriter small_file() {
  GgufWriter writer;
  writer.set_string("general.architecture", "llama");
  writer.set_u32("a.number", 7);
  writer.set_f32("a.real", 0.5f);
  writer.set_bool("a.flag", true);
  writer.set_strings("a.words", {"one", "", "three"});
  writer.set_i32s("a.list", {-1, 2, 3});
  writer.add_tensor("weight", {4, 3}, 0, tensor_data(48));
  writer.add_tensor("other", {32}, 8, tensor_data(34));
  return writer;
}

Status parse_error(const Bytes& bytes) {
  return GgufFile::parse(bytes, "f.gguf").status();
}

template <typename T>
void patch(Bytes& bytes, size_t at, T value) {
  ASSERT_LE(at + sizeof value, bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

size_t find_text(const Bytes& bytes, std::string_view text) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = all.find(text);
  EXPECT_NE(at, std::string_view::npos) << text;
  return at;
}

#define EXPECT_ERROR(status, word)                                                    \
  EXPECT_FALSE((status).ok());                                                        \
  EXPECT_NE(message_of(status).find(word), std::string_view::npos) << message_of(status)

TEST(GgufTest, ReadsWhatWasWritten) {
  const auto bytes = small_file().bytes();
  const auto file = GgufFile::parse(bytes, "f.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  const GgufFile& f = **file;
  EXPECT_EQ(f.version(), 3u);
  EXPECT_EQ(*f.integer("a.number"), 7);
  EXPECT_EQ(*f.real("a.real"), 0.5);
  EXPECT_EQ(*f.boolean("a.flag"), true);
  EXPECT_EQ(*f.string("general.architecture"), "llama");
  EXPECT_EQ(*f.strings("a.words"), (std::vector<std::string_view>{"one", "", "three"}));
  EXPECT_EQ(*f.integers("a.list"), (std::vector<int64_t>{-1, 2, 3}));
  const GgufTensor* weight = f.find_tensor("weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->dims[0], 4);
  EXPECT_EQ(weight->rows(), 3);
  EXPECT_EQ(f.data(*weight).size(), 48u);
  EXPECT_EQ(f.data(*weight)[47], std::byte{1});
  EXPECT_EQ(f.find_tensor("other")->type, kernels::WeightType::kQ8_0);
  EXPECT_EQ(f.find_tensor("nothing"), nullptr);
}

TEST(GgufTest, LookUpsNameTheKeyAndItsType) {
  const auto bytes = small_file().bytes();
  const auto file = GgufFile::parse(bytes, "f.gguf");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->integer("a.nothing").status().code(), StatusCode::kNotFound);
  EXPECT_ERROR((*file)->integer("a.real").status(), "'a.real' is f32");
  EXPECT_ERROR((*file)->real("a.number").status(), "'a.number' is u32");
  EXPECT_ERROR((*file)->string("a.words").status(), "'a.words' is array of string");
  EXPECT_ERROR((*file)->integer("a.number", 8, 9).status(), "'a.number' is 7");
  EXPECT_ERROR((*file)->integers("a.words").status(), "'a.words'");
  EXPECT_ERROR((*file)->floats("a.list").status(), "'a.list'");
}

TEST(GgufTest, EveryTruncationIsAnErrorThatNamesFileAndByte) {
  const auto whole = small_file().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const Status status = parse_error(part);
    ASSERT_FALSE(status.ok()) << "cut to " << size << " of " << whole.size();
    EXPECT_NE(message_of(status).find("f.gguf"), std::string_view::npos);
    EXPECT_NE(message_of(status).find("byte "), std::string_view::npos) << message_of(status);
  }
}

TEST(GgufTest, TruncatedModelFilesOnDiskAreRefused) {
  const auto whole = tiny_gguf(tiny_model(ModelFamily::kLlama, kernels::WeightType::kQ4_1, 1));
  const std::string path = ::testing::TempDir() + "gguf_test_" + std::to_string(::getpid());
  const RngKey key(5);
  for (uint64_t i = 0; i <= 10; ++i) {
    const uint64_t size = i == 10 ? whole.size() : key.below(i, whole.size());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(whole.data()), static_cast<std::streamsize>(size));
    const auto file = GgufFile::open(path);
    EXPECT_EQ(file.ok(), size == whole.size()) << size;
  }
  ::unlink(path.c_str());
  EXPECT_EQ(GgufFile::open(path).status().code(), StatusCode::kNotFound);
  EXPECT_ERROR(GgufFile::open(::testing::TempDir()).status(), "not a regular file");
}

// Whatever a file says, all that is read afterwards must be inside it (ASan watches) and no
// call may crash.
void read_all(const Bytes& bytes) {
  const auto file = GgufFile::parse(bytes, "f.gguf");
  if (!file.ok()) return;
  const GgufFile& f = **file;
  uint64_t sum = 0;
  for (const auto& tensor : f.tensors()) {
    const auto data = f.data(tensor);
    if (data.empty()) continue;
    sum += static_cast<uint8_t>(data.front()) + static_cast<uint8_t>(data.back());
  }
  for (const auto& entry : f.entries()) {
    sum += f.strings(entry.key).ok() + f.integers(entry.key).ok() + f.floats(entry.key).ok() +
           f.real(entry.key).ok() + f.integer(entry.key).ok() + f.boolean(entry.key).ok();
  }
  const auto spec = load_spec(f);
  if (spec.ok()) sum += bind_tensors(f, *spec).ok();
  sum += load_tokenizer_data(f).ok();
  EXPECT_GE(sum, 0u);
}

TEST(GgufTest, BitFlipsAnywhereNeverCrash) {
  const auto family = {ModelFamily::kLlama, ModelFamily::kGemma3};
  for (const auto f : family) {
    auto model = tiny_model(f, kernels::WeightType::kQ4_0, 1);
    model.layers = 1;
    const auto whole = tiny_gguf(model);
    const RngKey key(77);
    for (uint64_t i = 0; i < 3000; ++i) {
      Bytes bytes = whole;
      // Mostly in the metadata, which is where structure is.
      const uint64_t reach = i % 4 == 0 ? whole.size() : std::min<size_t>(whole.size(), 2000);
      for (uint64_t flip = 0; flip <= i % 3; ++flip) {
        const uint64_t at = key.split(i).below(2 * flip, reach);
        bytes[at] ^= static_cast<std::byte>(1u << key.split(i).below(2 * flip + 1, 8));
      }
      read_all(bytes);
    }
  }
}

TEST(GgufTest, HeadersThatAreNotOurs) {
  auto bytes = small_file().bytes();
  patch(bytes, 0, uint32_t{0x04034b50});
  EXPECT_ERROR(parse_error(bytes), "not a GGUF file");
  bytes = small_file().bytes();
  patch(bytes, 4, uint32_t{3u << 24});
  EXPECT_ERROR(parse_error(bytes), "big-endian");
  for (const uint32_t version : {0u, 1u, 4u, 99u}) {
    patch(bytes, 4, version);
    EXPECT_ERROR(parse_error(bytes), "version");
  }
  patch(bytes, 4, uint32_t{2});
  EXPECT_TRUE(parse_error(bytes).ok());
}

TEST(GgufTest, ImpossibleDimensionsNameTheTensor) {
  const auto whole = small_file().bytes();
  const size_t at = find_text(whole, "weight") + 6;   // n_dims, then dims
  for (const uint32_t count : {0u, 5u, 9u, 0xffffffffu}) {
    auto bytes = whole;
    patch(bytes, at, count);
    EXPECT_ERROR(parse_error(bytes), "'weight'");
  }
  for (const uint64_t dim : {uint64_t{0}, (uint64_t{1} << 42) + 1, ~uint64_t{0}, uint64_t{1} << 63,
                             uint64_t{1} << 61}) {
    auto bytes = whole;
    patch(bytes, at + 4, dim);
    EXPECT_ERROR(parse_error(bytes), "'weight'");
  }
  auto bytes = whole;   // a product that wraps to a small number
  patch(bytes, at + 4, uint64_t{1} << 32);
  patch(bytes, at + 12, uint64_t{1} << 32);
  EXPECT_ERROR(parse_error(bytes), "'weight'");
}

TEST(GgufTest, TensorTypesAndRowsThatHaveNoKernelAreNamed) {
  const auto whole = small_file().bytes();
  const size_t at = find_text(whole, "weight") + 6 + 4 + 16;
  auto bytes = whole;
  patch(bytes, at, uint32_t{10});
  EXPECT_ERROR(parse_error(bytes), "Q2_K");
  patch(bytes, at, uint32_t{23});
  EXPECT_ERROR(parse_error(bytes), "IQ4_XS");
  patch(bytes, at, uint32_t{123456});
  EXPECT_ERROR(parse_error(bytes), "number 123456");
  patch(bytes, at, uint32_t{8});   // Q8_0 with rows of 4
  EXPECT_ERROR(parse_error(bytes), "whole blocks");
}

TEST(GgufTest, TensorDataStaysInsideTheFileAlignedAndApart) {
  const auto whole = small_file().bytes();
  const size_t at = find_text(whole, "weight") + 6 + 4 + 16 + 4;
  auto bytes = whole;
  for (const uint64_t offset : {uint64_t{1} << 40, ~uint64_t{31}, uint64_t{96}}) {
    patch(bytes, at, offset);
    EXPECT_ERROR(parse_error(bytes), "'weight'");
  }
  patch(bytes, at, uint64_t{7});
  EXPECT_ERROR(parse_error(bytes), "alignment");
  patch(bytes, at, uint64_t{32});
  EXPECT_ERROR(parse_error(bytes), "overlap");
}

TEST(GgufTest, AlignmentIsAPowerOfTwoUpToOneMebibyte) {
  for (const uint32_t alignment : {0u, 3u, 1u << 21, 1u << 31, 0xffffffffu}) {
    auto writer = small_file();
    writer.set_u32("general.alignment", alignment);
    EXPECT_ERROR(parse_error(writer.bytes()), "general.alignment");
  }
  auto writer = small_file();
  writer.set_u32("general.alignment", 128);
  writer.alignment = 128;
  EXPECT_TRUE(parse_error(writer.bytes()).ok());
}

TEST(GgufTest, NothingIsThereTwice) {
  auto bytes = small_file().bytes();
  const size_t key = find_text(bytes, "a.list");
  std::memcpy(bytes.data() + key, "a.flag", 6);
  EXPECT_ERROR(parse_error(bytes), "'a.flag' is there twice");
  auto writer = small_file();
  writer.add_tensor("weight", {4}, 0, tensor_data(16));
  EXPECT_ERROR(parse_error(writer.bytes()), "'weight' is there twice");
}

int64_t resident_kib_max() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 160 bytes that ask for gigabytes wherever a count can stand.
TEST(GgufTest, HugeCountsInSmallFilesCostNoMemory) {
  const int64_t before = resident_kib_max();
  GgufWriter writer;
  writer.set_string("k", "v");
  writer.set_strings("words", {"x"});
  writer.set_i32s("list", {1});
  const auto whole = writer.bytes();
  int refused = 0;
  for (const uint64_t count :
       {uint64_t{1} << 30, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
    for (size_t at = 8; at + sizeof count <= whole.size(); ++at) {
      auto bytes = whole;
      patch(bytes, at, count);
      bytes.resize(160);
      refused += !parse_error(bytes).ok();
    }
  }
  // All but the few places where the eight bytes fall on text and values.
  EXPECT_GT(refused, 4 * 60);
  EXPECT_LT(resident_kib_max() - before, 16 * 1024);
}

TEST(GgufTest, MessagesEscapeWhatTheFileSays) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("a\n\x1b[31m\xff"), "a\\x0a\\x1b[31m\\xff");
  EXPECT_EQ(printable(std::string(200, 'x')).size(), 103u);
}

}  // namespace
}  // namespace lineshaft::model
