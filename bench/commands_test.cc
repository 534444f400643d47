#include "bench/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ferry/cli/common/command_line.h"
#include "ferry/cli/common/provider_check.h"

namespace ferry::bench {
namespace {

using ::testing::HasSubstr;

struct Said {
  int status = -1;
  std::string out;
  std::string err;
};

Said say(std::vector<const char*> words) {
  words.insert(words.begin(), "ferry-bench");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Said said;
  said.status = run_ferry_bench(static_cast<int>(words.size()), words.data());
  std::fflush(stdout);
  said.out = ::testing::internal::GetCapturedStdout();
  said.err = ::testing::internal::GetCapturedStderr();
  return said;
}

TEST(BenchCommandLine, HelpSucceedsOnStandardOutput) {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"--help"}, {"transfer", "--help"}}) {
    const auto said = say(words);
    EXPECT_EQ(said.status, 0);
    EXPECT_NE(said.out, "");
    EXPECT_EQ(said.err, "");
  }
}

TEST(BenchCommandLine, AnUnknownSubcommandIsNamedBesideThoseThereAre) {
  const auto said = say({"blah"});
  EXPECT_EQ(said.status, cli::kCannotRun);
  EXPECT_THAT(said.err, HasSubstr("ferry bench: unknown subcommand 'blah'; it is one of transfer, "
                                  "tensor, message, grpc, models, ps\n"));
}

TEST(BenchCommandLine, EveryUsageErrorHasTheSameStatus) {
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"transfer", "--touch", "x"}, {"transfer", "--blah"}, {"fact", "nothing"}}) {
    const auto said = say(words);
    EXPECT_EQ(said.status, cli::kCannotRun) << words.back();
    EXPECT_THAT(said.err, HasSubstr("--help"));
  }
}

TEST(BenchCommandLine, AnEmptyValueIsRefusedWhereverItStands) {
  for (const char* option : {"--sizes", "--providers", "--against", "--json", "--html"}) {
    const auto said = say({"transfer", option, ""});
    EXPECT_EQ(said.status, cli::kCannotRun) << option;
    EXPECT_THAT(said.err, HasSubstr(std::string(option) + ": the value is empty"));
  }
}

TEST(BenchCommandLine, SecondsHaveBoundsThatCanBeRead) {
  for (const char* value : {"-1", "0", "nan", "1e300", "soon"}) {
    const auto said = say({"transfer", "--seconds", value});
    EXPECT_EQ(said.status, cli::kCannotRun) << value;
    EXPECT_THAT(said.err, HasSubstr("is not a number of seconds from 0.1 to 86400"));
  }
}

TEST(BenchCommandLine, AProviderThatCannotWorkHereIsAnErrorThatSaysWhy) {
  const auto verbs = cli::try_provider("verbs");
  if (verbs) GTEST_SKIP() << "verbs works here";
  for (const char* option : {"--group", "--providers"}) {
    const auto said = say({"transfer", option, "verbs"});
    EXPECT_EQ(said.status, cli::kCannotRun);
    EXPECT_THAT(said.err, HasSubstr("nothing of ours can be measured on this host"));
    EXPECT_THAT(said.err, HasSubstr("verbs: " + verbs.error().message()));
    EXPECT_EQ(said.out, "");
  }
}

}  // namespace
}  // namespace ferry::bench
