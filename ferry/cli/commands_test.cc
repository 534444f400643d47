#include "ferry/cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "ferry/base/log.h"
#include "ferry/cli/common/command_line.h"

namespace ferry::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Said {
  int status = -1;
  std::string out;
  std::string err;
};

Said say(std::vector<const char*> words) {
  words.insert(words.begin(), "ferry");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Said said;
  said.status = run_ferry(static_cast<int>(words.size()), words.data());
  std::fflush(stdout);
  said.out = ::testing::internal::GetCapturedStdout();
  said.err = ::testing::internal::GetCapturedStderr();
  return said;
}

TEST(CommandLine, NamesAnUnknownOption) {
  const auto said = say({"doctor", "--providers", "shm"});
  EXPECT_EQ(said.status, kCannotRun);
  EXPECT_THAT(said.err, HasSubstr("unknown option '--providers'"));
}

TEST(CommandLine, HelpAndVersionSucceedOnStandardOutput) {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"--help"}, {"--version"}, {"doctor", "--help"}}) {
    const auto said = say(words);
    EXPECT_EQ(said.status, 0);
    EXPECT_NE(said.out, "");
    EXPECT_EQ(said.err, "");
  }
}

TEST(CommandLine, AnUnknownSubcommandIsNamedBesideThoseThereAre) {
  const auto top = say({"blah"});
  EXPECT_EQ(top.status, kCannotRun);
  EXPECT_THAT(
      top.err,
      HasSubstr("unknown subcommand 'blah'; it is one of doctor, tune, train, run, ps, mount, "
                "explain, grpc, bench\n"));
}

TEST(CommandLine, NothingAtAllNamesTheSubcommands) {
  const auto said = say({});
  EXPECT_EQ(said.status, kCannotRun);
  EXPECT_THAT(said.err,
              HasSubstr("a subcommand is missing: doctor, tune, train, run, ps, mount, explain, "
                        "grpc, bench"));
}

TEST(CommandLine, EveryUsageErrorHasTheSameStatus) {
  for (const auto& words : std::vector<std::vector<const char*>>{{"--blah"},
                                                                 {"doctor", "junk"},
                                                                 {"doctor", "--listen"},
                                                                 {"doctor", "--seconds", "x"},
                                                                 {"tune-here", "nothing"}}) {
    const auto said = say(words);
    EXPECT_EQ(said.status, kCannotRun) << words.back();
    EXPECT_THAT(said.err, HasSubstr("--help"));
  }
}

TEST(CommandLine, AnEmptyValueIsRefusedWhereverItStands) {
  for (const char* option : {"--peer", "--listen", "--report", "--secret-file"}) {
    const auto said = say({"doctor", option, ""});
    EXPECT_EQ(said.status, kCannotRun) << option;
    EXPECT_THAT(said.err, HasSubstr(std::string(option) + ": the value is empty"));
  }
}

TEST(CommandLine, WhatTheDoctorCannotDoAtOnceIsRefused) {
  for (const auto& words :
       std::vector<std::vector<const char*>>{{"--peer", "a:1", "--listen", "b:2"},
                                             {"--peer", "a:1", "--report", "f"},
                                             {"--listen", "b:2", "--report", "f"},
                                             {"--json", "--report", "f"},
                                             {"--json", "--listen", "b:2"},
                                             {"--seconds", "5"}}) {
    auto all = words;
    all.insert(all.begin(), "doctor");
    const auto said = say(all);
    EXPECT_EQ(said.status, kCannotRun) << words[0];
    EXPECT_THAT(said.err, HasSubstr("--")) << words[0];
  }
}

TEST(CommandLine, TheDoctorsHelpSaysWhatItLooksAtAndHowItEnds) {
  const auto help = say({"doctor", "--help"}).out;
  for (const char* word : {"FERRY_SECRET", "FERRY_LOG", "Exit status", "Examined", "minutes"})
    EXPECT_THAT(help, HasSubstr(word));
}

TEST(CommandLine, AnUnknownLogLevelIsAWarningThatNamesTheLevels) {
  const auto before = logger().level();
  setenv("FERRY_LOG", "blah", 1);
  const auto said = say({"--version"});
  unsetenv("FERRY_LOG");
  EXPECT_EQ(logger().level(), before);
  EXPECT_EQ(said.status, 0);
  EXPECT_THAT(said.err, HasSubstr("FERRY_LOG=blah is ignored; it is one of trace, debug, info, "
                                  "warn, error, off"));
  EXPECT_THAT(say({"--version"}).err, Not(HasSubstr("FERRY_LOG")));
}

TEST(CommandLine, EveryLogLevelThatIsNamedIsTaken) {
  const auto before = logger().level();
  for (auto level : kLogLevels) {
    setenv("FERRY_LOG", std::string(level).c_str(), 1);
    EXPECT_EQ(say({"--version"}).err, "") << level;
  }
  EXPECT_EQ(logger().level(), spdlog::level::off);
  unsetenv("FERRY_LOG");
  logger().set_level(before);
}

}  // namespace
}  // namespace ferry::cli
