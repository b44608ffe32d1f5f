// At stake: a setting comes from where the user thinks it does; a misspelt one is never ignored.
#include "lineshaft/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lineshaft/exit_code.h"

namespace lineshaft::app {
namespace {

class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() /
            ("lineshaft_options_test_" + std::to_string(::getpid()) + ".toml");
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);  // no file of whoever runs this
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    unsetenv("LINESHAFT_THREADS");
    unsetenv("LINESHAFT_BATCH");
  }
  void write(const std::string& text) { std::ofstream(file_) << text; }

  ParsedCommand parse(std::vector<std::string> args) {
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    ParsedCommand out = parse_command_line(std::move(args));
    std::fflush(stdout);
    printed_ = testing::internal::GetCapturedStdout();
    talk_ = testing::internal::GetCapturedStderr();
    return out;
  }
  void expect_refused(std::vector<std::string> args, const std::string& text) {
    const ParsedCommand out = parse(std::move(args));
    EXPECT_EQ(out.run, nullptr);
    EXPECT_EQ(out.exit_code, kWrongUse);
    EXPECT_NE(talk_.find(text), std::string::npos) << talk_;
  }

  std::filesystem::path file_;
  std::string printed_;
  std::string talk_;
};

TEST_F(OptionsTest, FlagBeforeEnvironmentBeforeFileBeforeDefault) {
  EXPECT_EQ(parse({"serve"}).config.model.threads, 0);
  write("threads = 3\n");
  const std::string path = file_.string();
  EXPECT_EQ(parse({"serve", "--config", path}).config.model.threads, 3);
  setenv("LINESHAFT_THREADS", "5", 1);
  EXPECT_EQ(parse({"serve", "--config", path}).config.model.threads, 5);
  EXPECT_EQ(parse({"serve", "--config=" + path, "-t", "7"}).config.model.threads, 7);
}

TEST_F(OptionsTest, PrintConfigNamesTheSource) {
  write("threads = 3\n[serve]\nport = 0\n");
  const ParsedCommand out =
      parse({"serve", "--config", file_.string(), "--print-config", "--max-seqs", "9"});
  EXPECT_EQ(out.run, nullptr);
  EXPECT_EQ(out.exit_code, kOk);
  EXPECT_NE(printed_.find("threads = 3  # " + file_.string() + ":1"), std::string::npos);
  EXPECT_NE(printed_.find("port = 0  # " + file_.string() + ":3"), std::string::npos);
  EXPECT_NE(printed_.find("max-seqs = 9  # flag"), std::string::npos);
  EXPECT_NE(printed_.find("queue-max = 256  # default"), std::string::npos);
}

TEST_F(OptionsTest, ASectionIsForItsCommandAndWins) {
  write("max-context = \"4k\"\n[serve]\nmax-context = \"8k\"\n");
  const std::string path = file_.string();
  EXPECT_EQ(parse({"serve", "--config", path}).config.memory.max_context, 8192);
  EXPECT_EQ(parse({"generate", "--config", path}).config.memory.max_context, 4096);
}

TEST_F(OptionsTest, ListsComeFromAllSources) {
  write("[bench]\nbatch = [1, 16]\n");
  EXPECT_EQ(parse({"bench", "--config", file_.string()}).config.bench.batch,
            (std::vector<int>{1, 16}));
  setenv("LINESHAFT_BATCH", "2,4", 1);
  EXPECT_EQ(parse({"bench"}).config.bench.batch, (std::vector<int>{2, 4}));
  EXPECT_EQ(parse({"bench", "--batch", "8"}).config.bench.batch, (std::vector<int>{8}));
}

TEST_F(OptionsTest, WhatIsUnknownIsRefusedWithAHint) {
  expect_refused({"serve", "--ctx-sise", "5"}, "unknown flag --ctx-sise, did you mean --ctx-size?");
  expect_refused({"serv"}, "did you mean serve?");
  write("thread = 3\n");
  expect_refused({"serve", "--config", file_.string()}, ":1: unknown key 'thread', did you mean "
                                                        "'threads'?");
  write("[sreve]\nport = 1\n");
  expect_refused({"serve", "--config", file_.string()}, "no command 'sreve'");
  write("threads = = 3\n");
  expect_refused({"serve", "--config", file_.string()}, file_.string() + ":1:");
  expect_refused({"serve", "--config", "/nonexistent/x.toml"}, "cannot read");
}

TEST_F(OptionsTest, ValuesAreCheckedWhereverTheyComeFrom) {
  expect_refused({"serve", "--port", "70000"}, "--port");
  expect_refused({"serve", "--profile", "fast"}, "--profile");
  expect_refused({"serve", "--max-context", "8q"}, "unit");
  setenv("LINESHAFT_THREADS", "many", 1);
  expect_refused({"serve"}, "LINESHAFT_THREADS");
  unsetenv("LINESHAFT_THREADS");
  write("threads = \"many\"\n");
  expect_refused({"serve", "--config", file_.string()}, file_.string() + ":1");
}

TEST_F(OptionsTest, NamesOfOtherProgramsFlagsWork) {
  const Config c = parse({"serve", "-m", "x.gguf", "-c", "16k", "-np", "4", "--alias", "y"}).config;
  EXPECT_EQ(c.model.model, "x.gguf");
  EXPECT_EQ(c.memory.max_context, 16384);
  EXPECT_EQ(c.scheduling.max_seqs, 4);
  EXPECT_EQ(c.serve.served_model_name, "y");
}

TEST_F(OptionsTest, HelpAndVersionEndWell) {
  for (const auto& args : std::vector<std::vector<std::string>>{
           {"--help"}, {"--version"}, {"help", "serve"}, {"serve", "-h"}}) {
    const ParsedCommand out = parse(args);
    EXPECT_EQ(out.run, nullptr);
    EXPECT_EQ(out.exit_code, kOk);
    EXPECT_FALSE(printed_.empty());
  }
  EXPECT_EQ(parse({}).exit_code, kWrongUse);
}

}  // namespace
}  // namespace lineshaft::app
