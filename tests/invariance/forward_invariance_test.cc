// What is at stake: the law of docs/numerics.md. A row's logits must have the same bits whatever
// else is in the step, however its prompt was cut, on any number of threads, on every instruction
// set. Compared with memcmp; blocks hold NaN where nothing was written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "support/forward_harness.h"
#include "support/gguf_writer.h"

namespace lineshaft {
namespace {

using kernels::Isa;
using kernels::KvType;
using kernels::Profile;
using kernels::WeightType;
using testing::ForwardHarness;
using Logits = std::vector<std::vector<float>>;
using WeightsPtr = std::shared_ptr<const model::Weights>;

constexpr int32_t kStepTokens = 96;
constexpr int32_t kStrangerTokens = 64;

std::vector<TokenId> random_tokens(int32_t count, int32_t vocab, RngKey key) {
  std::vector<TokenId> out;
  for (int32_t i = 0; i < count; ++i) {
    out.push_back(static_cast<TokenId>(
        key.below(static_cast<uint64_t>(i), static_cast<uint64_t>(vocab))));
  }
  return out;
}

struct Setting {
  Profile profile = Profile::kCpuInt8;
  KvType kv_type = KvType::kF16;
  Isa isa = Isa::kScalar;
  int threads = 1;
};

std::unique_ptr<ForwardHarness> make_harness(const WeightsPtr& weights, const Setting& setting) {
  model::ForwardOptions options;
  options.profile = setting.profile;
  options.isa = setting.isa;
  options.kv_type = setting.kv_type;
  options.block_tokens = 16;
  options.step_tokens_max = kStepTokens;
  options.logit_rows_max = kStepTokens;
  return std::make_unique<ForwardHarness>(weights, options, setting.threads);
}

// One token a step: the plainest way, that all others must agree with.
Logits token_by_token(const WeightsPtr& weights, const Setting& setting,
                      const std::vector<TokenId>& tokens) {
  auto harness = make_harness(weights, setting);
  const int sequence = harness->add_sequence(static_cast<int32_t>(tokens.size()));
  Logits out;
  for (const TokenId token : tokens) {
    out.push_back(harness->step({{sequence, {token}, true}})[0]);
  }
  return out;
}

// The prompt in chunks of random sizes, the step shared with `strangers` others whose chunks
// are of random sizes too.
Logits in_company(const WeightsPtr& weights, const Setting& setting,
                  const std::vector<TokenId>& tokens, int strangers, RngKey key) {
  auto harness = make_harness(weights, setting);
  const auto length = static_cast<int32_t>(tokens.size());
  // Strangers come first and last in the step.
  std::vector<int> others;
  for (int i = 0; i < strangers; ++i) others.push_back(harness->add_sequence(kStrangerTokens));
  const int sequence = harness->add_sequence(length);
  const int32_t share = std::max(1, kStepTokens / (strangers + 1));
  Logits out;
  uint64_t draw = 0;
  for (int32_t at = 0; at < length;) {
    const auto size = [&] { return static_cast<int32_t>(1 + key.below(draw++, share)); };
    const int32_t count = std::min(size(), length - at);
    std::vector<ForwardHarness::Work> work;
    size_t place = 0;
    for (size_t i = 0; i < others.size(); ++i) {
      const int32_t rows = std::min(size(), kStrangerTokens - harness->length(others[i]));
      if (rows == 0) continue;
      work.push_back({others[i], random_tokens(rows, harness->spec().vocab, key.split(draw++)),
                      draw % 2 == 0});
    }
    place = work.empty() ? 0 : key.below(draw++, work.size() + 1);
    work.insert(work.begin() + static_cast<ptrdiff_t>(place),
                {sequence, {tokens.begin() + at, tokens.begin() + at + count}, true});
    const Logits rows = harness->step(work);
    size_t first = 0;
    for (size_t i = 0; i < place; ++i) first += work[i].all_logits ? work[i].tokens.size() : 1;
    out.insert(out.end(), rows.begin() + static_cast<ptrdiff_t>(first),
               rows.begin() + static_cast<ptrdiff_t>(first) + count);
    at += count;
  }
  return out;
}

void expect_same_bits(const Logits& a, const Logits& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)), 0)
        << what << ", row " << i;
  }
}

std::vector<Isa> machine_isas() {
  std::vector<Isa> out;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (kernels::cpu_has(isa)) out.push_back(isa);
  }
  return out;
}

// Scalar bodies are slow (fused multiply-add in software): they give the plain answer and a few
// rows in company; the others go through everything.
void check_model(const WeightsPtr& weights, Profile profile, KvType kv, int32_t length,
                 RngKey key) {
  const auto tokens = random_tokens(length, weights->spec().vocab, key);
  const Logits plain = token_by_token(weights, {profile, kv, Isa::kScalar, 1}, tokens);
  for (const auto& row : plain) {
    for (const float x : row) ASSERT_TRUE(std::isfinite(x));
  }
  const auto compare = [&](const Setting& setting, int strangers, size_t rows) {
    const std::vector<TokenId> some(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(rows));
    const Logits want(plain.begin(), plain.begin() + static_cast<ptrdiff_t>(rows));
    expect_same_bits(want,
                     in_company(weights, setting, some, strangers,
                                key.split(static_cast<uint64_t>(strangers * 4 + setting.threads))),
                     fmt::format("{} {} {} threads {} strangers {}", kernels::name_of(profile),
                                 kernels::name_of(kv), kernels::name_of(setting.isa),
                                 setting.threads, strangers));
  };
  compare({profile, kv, Isa::kScalar, 2}, 1, 8);
  for (const Isa isa : machine_isas()) {
    if (isa == Isa::kScalar) continue;
    expect_same_bits(plain, token_by_token(weights, {profile, kv, isa, 2}, tokens), "alone");
    for (int threads = 1; threads <= 3; ++threads) {
      for (const int strangers : {0, 1, 6}) {
        compare({profile, kv, isa, threads}, strangers, plain.size());
      }
      compare({profile, kv, isa, threads}, 63, 4);
    }
  }
}

struct Case {
  ModelFamily family;
  WeightType type;
  size_t kv;  // KV type of the first profile; the others take the next ones
};

KvType kv_type(size_t i) { return kernels::kKvTypes[i % std::size(kernels::kKvTypes)]; }

class TinyInvarianceTest : public ::testing::TestWithParam<Case> {};

TEST_P(TinyInvarianceTest, RowsDependOnTheirOwnSequenceOnly) {
  const auto file = testing::tiny_file(testing::tiny_model(GetParam().family, GetParam().type, 3));
  const auto weights = testing::load_weights(file);
  for (size_t i = 0; i < std::size(kernels::kProfiles); ++i) {
    check_model(weights, kernels::kProfiles[i], kv_type(GetParam().kv + i), 40, RngKey(11));
    if (HasFatalFailure()) return;
  }
}

// Decodes of sequences that share their first blocks, in one step, against each one alone: the
// same prompt computed in blocks of its own. `shared` positions for all, further ones for some.
void check_shared(const WeightsPtr& weights, const Setting& setting, RngKey key) {
  constexpr int32_t kShared[] = {144, 144, 80, 144, 96, 144, 64, 0};
  const int32_t vocab = weights->spec().vocab;
  const auto prompt = random_tokens(144, vocab, key.split(0));
  auto together = make_harness(weights, setting), alone = make_harness(weights, setting);
  const auto feed = [](ForwardHarness& harness, int sequence, std::span<const TokenId> tokens) {
    for (; !tokens.empty(); tokens = tokens.subspan(std::min<size_t>(tokens.size(), kStepTokens))) {
      harness.extend(sequence, tokens.first(std::min<size_t>(tokens.size(), kStepTokens)), false);
    }
  };
  const int root = together->add_sequence(160);
  feed(*together, root, prompt);
  std::vector<ForwardHarness::Work> work;
  std::vector<std::vector<float>> want;
  for (size_t i = 0; i < std::size(kShared); ++i) {
    const int32_t shared = kShared[i];
    const auto rest = random_tokens(1 + static_cast<int32_t>(key.below(i, 40)), vocab,
                                    key.split(1 + i));
    work.push_back({together->fork(root, shared, 192), {rest.back()}, true});
    feed(*together, work.back().sequence, std::span(rest).first(rest.size() - 1));
    const int single = alone->add_sequence(192);
    feed(*alone, single, std::span(prompt).first(static_cast<size_t>(shared)));
    feed(*alone, single, std::span(rest).first(rest.size() - 1));
    want.push_back(alone->step({{single, {rest.back()}, true}})[0]);
  }
  expect_same_bits(want, together->step(work),
                   fmt::format("{} {} {} threads {}", kernels::name_of(setting.profile),
                               kernels::name_of(setting.kv_type), kernels::name_of(setting.isa),
                               setting.threads));
}

TEST(SharedPrefixInvarianceTest, SequencesThatShareBlocksAreEachAsAlone) {
  for (const ModelFamily family : {ModelFamily::kLlama, ModelFamily::kGemma3}) {
    const auto file = testing::tiny_file(testing::tiny_model(family, WeightType::kQ8_0, 3));
    const auto weights = testing::load_weights(file);
    for (const KvType kv : kernels::kKvTypes) {
      for (const Isa isa : machine_isas()) {
        if (isa == Isa::kScalar) continue;
        for (int threads = 1; threads <= 3; ++threads) {
          const Profile profile = kernels::kProfiles[threads - 1];
          check_shared(weights, {profile, kv, isa, threads}, RngKey(31));
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> out;
  // Every format once, every family with several, every profile with every KV type.
  constexpr ModelFamily kFamilies[] = {ModelFamily::kLlama, ModelFamily::kQwen2,
                                       ModelFamily::kQwen3, ModelFamily::kGemma3};
  for (int t = 0; t < kernels::kWeightTypeCount; ++t) {
    out.push_back({kFamilies[t % 4], static_cast<WeightType>(t), static_cast<size_t>(t)});
  }
  out.push_back({ModelFamily::kGemma3, WeightType::kQ4_1, 1});
  out.push_back({ModelFamily::kQwen3, WeightType::kQ8_0, 3});
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  constexpr const char* kNames[] = {"llama", "qwen2", "qwen3", "gemma3"};
  return std::string(kNames[static_cast<int>(info.param.family)]) + "_" +
         std::string(kernels::info(info.param.type).name);
}
INSTANTIATE_TEST_SUITE_P(Tiny, TinyInvarianceTest, ::testing::ValuesIn(cases()), case_name);

class RealInvarianceTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RealInvarianceTest, RowsDependOnTheirOwnSequenceOnly) {
  auto file = testing::file_from_environment(GetParam());
  if (file == nullptr) GTEST_SKIP() << GetParam() << " does not name the model file";
  const auto weights = testing::load_weights(std::move(file));
  for (size_t i = 0; i < std::size(kernels::kKvTypes); ++i) {
    const Profile profile = kernels::kProfiles[i % std::size(kernels::kProfiles)];
    const KvType kv = kv_type(i);
    const auto tokens = random_tokens(24, weights->spec().vocab, RngKey(17));
    const Logits plain =
        token_by_token(weights, {profile, kv, kernels::best_isa(), 2}, tokens);
    const Isa other = kernels::cpu_has(Isa::kAvx2) ? Isa::kAvx2 : Isa::kScalar;
    expect_same_bits(plain, token_by_token(weights, {profile, kv, other, 1}, tokens), "avx2");
    for (const int strangers : {0, 6}) {
      expect_same_bits(plain,
                       in_company(weights, {profile, kv, kernels::best_isa(), 3}, tokens,
                                  strangers, RngKey(23)),
                       "with strangers");
    }
    // The scalar body is slow: fewer rows of it.
    const std::vector<TokenId> head(tokens.begin(), tokens.begin() + 2);
    const Logits first(plain.begin(), plain.begin() + 2);
    expect_same_bits(
        first, in_company(weights, {profile, kv, Isa::kScalar, 2}, head, 0, RngKey(29)), "scalar");
  }
}
INSTANTIATE_TEST_SUITE_P(Real, RealInvarianceTest,
                         ::testing::Values("LINESHAFT_SMOLLM2", "LINESHAFT_GEMMA3"));

}  // namespace
}  // namespace lineshaft
