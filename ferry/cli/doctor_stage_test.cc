#include "ferry/cli/doctor_stage.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::cli {
namespace {

struct Ran {
  StageEnd end;
  std::string report;
};

Ran run_shell(
    const std::string& script, const std::function<void(int)>& on_second = [](int) {}) {
  InterruptGuard guard;
  std::ostringstream report;
  const auto end = run_stage({"a stage", "/bin/sh", {"-c", script}}, report, on_second);
  return {end, report.str()};
}

TEST(DoctorStage, TheReportHoldsTheCommandAllThatWasSaidAndTheEnd) {
  const auto ran = run_shell("echo out; echo err >&2");
  EXPECT_EQ(ran.report,
            "\n## a stage\n\n    /bin/sh -c echo out; echo err >&2\n\n```\nout\nerr\n```\n\n"
            "passed\n");
  EXPECT_EQ(ran.end.exit_code, 0);
}

TEST(DoctorStage, AFailureHasItsStatus) {
  const auto ran = run_shell("exit 7");
  EXPECT_EQ(to_text(ran.end), "FAILED (7)");
  InterruptGuard guard;
  std::ostringstream report;
  EXPECT_NE(run_stage({"t", "/not/there", {}}, report, [](int) {}).exit_code, 0);
  EXPECT_NE(report.str().find("/not/there"), std::string::npos);
}

TEST(DoctorStage, WhatWasLeftOutIsNotPlainlyPassed) {
  const auto ran = run_shell("echo 'note: UCX is left out: no such thing'");
  EXPECT_EQ(to_text(ran.end), "passed, 1 left out");
  EXPECT_EQ(count_left_out("note: x at 2 B is left out: why\n"
                           "note: 2 of 6 repetitions fit into the time\n"
                           "said: y is left out: \n"),
            1);
  EXPECT_EQ(count_left_out("[  SKIPPED ] Map.One (0 ms)\n[  SKIPPED ] 4 tests, listed below:\n"
                           "[  SKIPPED ] Map.One\n"),
            4);
}

TEST(DoctorStage, AnInterruptEndsTheProgramAndIsWrittenDown) {
  const auto ran = run_shell("echo $$; exec sleep 600", [](int) { raise(SIGTERM); });
  EXPECT_TRUE(ran.end.interrupted);
  EXPECT_EQ(to_text(ran.end), "interrupted");
  EXPECT_NE(ran.report.find("\n```\n\ninterrupted\n"), std::string::npos);
  const auto said = ran.report.find("```\n") + 4;
  EXPECT_EQ(kill(std::stoi(ran.report.substr(said)), 0), -1);
}

}  // namespace
}  // namespace ferry::cli
