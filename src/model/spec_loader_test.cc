// What is at stake: a key that is misread gives fluent nonsense, which no later check finds.
#include "model/spec_loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "model/weights.h"
#include "support/forward_harness.h"
#include "support/gguf_writer.h"

namespace lineshaft::model {
namespace {

using kernels::WeightType;
using testing::GgufWriter;
using testing::tiny_file;
using testing::tiny_model;

// Metadata of a one-layer model of 64 hidden; `change` may spoil it.
StatusOr<ModelSpec> spec_with(const std::string& arch,
                              const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer;
  writer.set_string("general.architecture", arch);
  writer.set_u32(arch + ".block_count", 12);
  writer.set_u32(arch + ".context_length", 2048);
  writer.set_u32(arch + ".embedding_length", 64);
  writer.set_u32(arch + ".feed_forward_length", 128);
  writer.set_u32(arch + ".attention.head_count", 4);
  writer.set_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
  if (arch == "gemma3") writer.set_u32(arch + ".attention.sliding_window", 512);
  writer.add_tensor("token_embd.weight", {64, 10}, 0, std::vector<std::byte>(64 * 10 * 4));
  change(writer);
  const auto bytes = writer.bytes();
  const auto file = GgufFile::parse(bytes, "dir/some.gguf");
  if (!file.ok()) return file.status();
  return load_spec(**file);
}

void expect_refused(const std::string& arch, const std::function<void(GgufWriter&)>& change,
                    std::string_view word) {
  const auto spec = spec_with(arch, change);
  ASSERT_FALSE(spec.ok()) << word;
  EXPECT_NE(message_of(spec.status()).find(word), std::string_view::npos)
      << message_of(spec.status());
}

TEST(SpecLoaderTest, LlamaDefaults) {
  const auto spec = spec_with("llama", [](GgufWriter&) {});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name, "some");
  EXPECT_EQ(spec->kv_heads, 4);
  EXPECT_EQ(spec->head_dim, 16);
  EXPECT_EQ(spec->rope_dims, 16);
  EXPECT_EQ(spec->vocab, 10);
  EXPECT_TRUE(spec->tied_output);
  EXPECT_TRUE(spec->rope_interleaved);
  EXPECT_FLOAT_EQ(spec->attention_scale, 0.25f);
  EXPECT_EQ(spec->layers.size(), 12u);
  EXPECT_EQ(spec->layers[0].rope_base, 10'000.0f);
  EXPECT_EQ(spec->layers[0].window, 0);
}

TEST(SpecLoaderTest, Gemma3AlternatesWindowsAndBases) {
  const auto spec = spec_with("gemma3", [](GgufWriter& w) {
    w.set_f32("gemma3.rope.freq_base", 1e6f);
    w.set_string("gemma3.rope.scaling.type", "linear");
    w.set_f32("gemma3.rope.scaling.factor", 8.0f);
  });
  ASSERT_TRUE(spec.ok()) << spec.status();
  for (size_t i = 0; i < 12; ++i) {
    const bool global = i == 5 || i == 11;
    EXPECT_EQ(spec->layers[i].window, global ? 0 : 512) << i;
    EXPECT_EQ(spec->layers[i].rope_base, global ? 1e6f : 1e4f) << i;
    EXPECT_EQ(spec->layers[i].rope_scale, global ? 0.125f : 1.0f) << i;
  }
  EXPECT_EQ(spec->embedding_scale, 8.0f);
  EXPECT_EQ(spec->activation, Activation::kGeluTanh);
  EXPECT_TRUE(spec->qk_norm && spec->sandwich_norm && !spec->rope_interleaved);
}

TEST(SpecLoaderTest, QwenFamilies) {
  const auto nothing = [](GgufWriter&) {};
  const auto qwen2 = spec_with("qwen2", nothing);
  ASSERT_TRUE(qwen2.ok()) << qwen2.status();
  EXPECT_TRUE(qwen2->qkv_bias && !qwen2->qk_norm && !qwen2->rope_interleaved);
  const auto qwen3 = spec_with("qwen3", nothing);
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_TRUE(!qwen3->qkv_bias && qwen3->qk_norm && !qwen3->rope_interleaved);
}

TEST(SpecLoaderTest, WhatIsNotSupportedIsRefusedByName) {
  expect_refused("mamba", [](GgufWriter&) {}, "'mamba'");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.expert_count", 8); }, "experts");
  expect_refused("llama", [](GgufWriter& w) { w.set_string("llama.rope.scaling.type", "yarn"); },
                 "'yarn'");
  expect_refused("gemma3",
                 [](GgufWriter& w) { w.set_f32("gemma3.final_logit_softcapping", 30.0f); },
                 "soft-capping");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.surprise", 1); },
                 "llama.surprise");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.attention.sliding_window", 64); },
                 "sliding_window");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.attention.value_length", 32); },
                 "16 and values of 32");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.attention.key_length", 24); },
                 "heads of 24");
}

TEST(SpecLoaderTest, KeysAreCheckedForTypeAndRange) {
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.block_count", 0); },
                 "llama.block_count");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.block_count", 0xffffffff); },
                 "llama.block_count");
  expect_refused("llama", [](GgufWriter& w) { w.set_string("llama.context_length", "2048"); },
                 "llama.context_length");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.attention.head_count_kv", 3); },
                 "head_count_kv");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.rope.dimension_count", 17); },
                 "rope.dimension_count");
  expect_refused("llama", [](GgufWriter& w) { w.set_u32("llama.embedding_length", 40); },
                 "multiples");
  for (const float bad : {0.0f, -1.0f, NAN, INFINITY}) {
    expect_refused("llama", [&](GgufWriter& w) { w.set_f32("llama.rope.freq_base", bad); },
                   "rope.freq_base");
    expect_refused(
        "llama",
        [&](GgufWriter& w) { w.set_f32("llama.attention.layer_norm_rms_epsilon", bad); },
        "layer_norm_rms_epsilon");
  }
  expect_refused("gemma3",
                 [](GgufWriter& w) {
                   w.set_i32s("gemma3.attention.sliding_window_pattern", {1, 0});
                 },
                 "sliding_window_pattern");
  expect_refused("llama",
                 [](GgufWriter& w) { w.set_strings("tokenizer.ggml.tokens", {"a", "b"}); },
                 "tokenizer.ggml.tokens");
}

TEST(SpecLoaderTest, TokenizerDataOfATinyModel) {
  const auto file = tiny_file(tiny_model(ModelFamily::kLlama, WeightType::kF32, 1));
  const auto data = load_tokenizer_data(*file);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->model, "gpt2");
  EXPECT_EQ(data->pre, "smollm");
  EXPECT_EQ(data->tokens.size(), static_cast<size_t>(testing::kTinyVocab));
  EXPECT_EQ(data->token_types[2], 3);
  EXPECT_EQ(data->bos, 1);
  EXPECT_EQ(data->eos, 2);
  EXPECT_FALSE(data->eot.has_value());
  EXPECT_EQ(data->add_bos, false);
  EXPECT_EQ(data->merges[0], "h e");
}

TEST(WeightsTest, EveryFamilyAndFormatLoadsAndTakesThePlannedBytes) {
  ThreadTeam team(2);
  for (const auto family : {ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3,
                            ModelFamily::kGemma3}) {
    for (int t = 0; t < kernels::kWeightTypeCount; ++t) {
      const auto file = tiny_file(tiny_model(family, static_cast<WeightType>(t), 1));
      const auto spec = load_spec(*file);
      ASSERT_TRUE(spec.ok()) << spec.status();
      const auto tensors = bind_tensors(*file, *spec);
      ASSERT_TRUE(tensors.ok()) << tensors.status();
      uint64_t last = 0;
      const auto weights =
          Weights::load(file, *spec, team, [&](uint64_t done, uint64_t total) {
            EXPECT_GT(done, last);
            EXPECT_LE(done, total);
            last = done;
          });
      ASSERT_TRUE(weights.ok()) << weights.status();
      int64_t bytes = (*weights)->output().bytes();
      for (const auto& layer : (*weights)->layers()) {
        for (const auto* m : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up,
                              &layer.down}) {
          bytes += m->bytes();
        }
      }
      EXPECT_EQ(packed_bytes(*tensors), bytes);
    }
  }
}

TEST(WeightsTest, FingerprintTellsModelsApart) {
  ThreadTeam one(1);
  ThreadTeam three(3);
  const auto fingerprint = [](const testing::TinyModel& model, ThreadTeam& team, bool flip) {
    auto bytes = std::make_shared<std::vector<std::byte>>(testing::tiny_gguf(model));
    if (flip) bytes->back() ^= std::byte{1};
    auto file = GgufFile::parse(*bytes, "tiny.gguf");
    EXPECT_TRUE(file.ok());
    const auto weights = Weights::load(*file, *load_spec(**file), team);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return (*weights)->spec().fingerprint;
  };
  auto model = tiny_model(ModelFamily::kLlama, WeightType::kQ4_1, 2);
  const auto base = fingerprint(model, one, false);
  EXPECT_EQ(base, fingerprint(model, three, false));
  EXPECT_NE(base, fingerprint(model, one, true)) << "one bit of the last tensor";
  model.seed = 4;
  EXPECT_NE(base, fingerprint(model, one, false));
}

TEST(WeightsTest, TensorsThatAreMissingMisshapenOrForeignAreNamed) {
  const auto error = [](const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer;
    writer.set_string("general.architecture", "llama");
    writer.set_u32("llama.block_count", 1);
    writer.set_u32("llama.context_length", 64);
    writer.set_u32("llama.embedding_length", 32);
    writer.set_u32("llama.feed_forward_length", 32);
    writer.set_u32("llama.attention.head_count", 2);
    writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-6f);
    const auto add = [&](const char* name, std::vector<uint64_t> dims, size_t count) {
      writer.add_tensor(name, std::move(dims), 0, std::vector<std::byte>(count * 4));
    };
    add("token_embd.weight", {32, 10}, 320);
    add("output_norm.weight", {32}, 32);
    add("blk.0.attn_norm.weight", {32}, 32);
    for (const auto* name : {"attn_q", "attn_k", "attn_output", "ffn_gate", "ffn_up",
                             "ffn_down"}) {
      add((std::string("blk.0.") + name + ".weight").c_str(), {32, 32}, 1024);
    }
    change(writer);
    const auto bytes = writer.bytes();
    const auto file = GgufFile::parse(bytes, "f.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    const auto spec = load_spec(**file);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return std::string(message_of(bind_tensors(**file, *spec).status()));
  };
  const auto tensor = [](size_t count) { return std::vector<std::byte>(count * 4); };
  EXPECT_NE(error([](GgufWriter&) {}).find("'blk.0.attn_v.weight' is missing"),
            std::string::npos);
  EXPECT_NE(error([&](GgufWriter& w) {
              w.add_tensor("blk.0.attn_v.weight", {32, 16}, 0, tensor(512));
            }).find("'blk.0.attn_v.weight' has shape [32, 16], expected [32, 32]"),
            std::string::npos);
  EXPECT_NE(error([&](GgufWriter& w) {
              w.add_tensor("blk.0.attn_v.weight", {32, 32}, 0, tensor(1024));
              w.add_tensor("blk.0.ffn_norm.weight", {32}, 0, tensor(32));
              w.add_tensor("blk.0.attn_q.bias", {32}, 0, tensor(32));
            }).find("'blk.0.attn_q.bias' is not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace lineshaft::model
