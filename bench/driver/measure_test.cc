#include "bench/driver/measure.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ferry/cli/common/child.h"
#include "ferry/cli/common/interrupt_guard.h"

namespace ferry::bench {
namespace {

using namespace std::chrono_literals;

// Round programs written in shell, in a folder of their own. Each notes its runs in `log`.
class BenchMeasure : public ::testing::Test {
 protected:
  BenchMeasure() {
    char name[] = "/tmp/ferry-bench-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~BenchMeasure() override { std::filesystem::remove_all(folder_); }

  // `on_run` is what the program does when told to run; $bytes and $rounds are set.
  Variant program(const std::string& name, const std::string& on_run,
                  const std::string& sizes = "16-1000000") {
    const auto path = folder_ + "/" + name;
    std::ofstream file(path);
    file << "#!/bin/sh\nwhile read -r word bytes rounds rest; do\n"
         << "bytes=${bytes#bytes=}; rounds=${rounds#rounds=}\n"
         << "case $word in\nhello) echo ok name=" << name << " what=a test sizes=" << sizes
         << ";;\nrun) echo " << name << " $bytes $rounds >>" << folder_ << "/log; " << on_run
         << ";;\nquit) exit 0;;\nesac\ndone\n";
    file.close();
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return {.id = name, .title = name, .owner = Owner::kLimit, .selector = "x", .program = name};
  }

  Measurements run(std::vector<Variant> variants, int repeat, std::vector<std::uint64_t> sizes) {
    Plan plan;
    plan.variants = std::move(variants);
    plan.sizes = std::move(sizes);
    plan.repeat = repeat;
    plan.folders = {folder_};
    cli::InterruptGuard guard;
    return measure(plan, [this](const Progress& now) {
      if (on_progress_) on_progress_(now);
    });
  }

  // The names of the programs in the order of their runs, without the first `skip`.
  std::string order(std::size_t skip) const {
    std::ifstream file(folder_ + "/log");
    std::string names;
    for (std::string line; std::getline(file, line);) {
      if (skip > 0) {
        --skip;
      } else {
        names += line.substr(0, line.find(' '));
      }
    }
    return names;
  }

  std::string folder_;
  OnProgress on_progress_;
  // Each round takes 20 ms: three rounds are enough for a run.
  const std::string steady_ =
      "echo ok ns=$((rounds*20000000)) cpu_ns=$((rounds*7)) checked=$bytes bad=0";
};

TEST_F(BenchMeasure, VariantsTakeTurnsAndTheOrderRotates) {
  const auto measured =
      run({program("a", steady_), program("b", steady_), program("c", steady_)}, 3, {64});
  // One run each to find the number of rounds, then three turns.
  EXPECT_EQ(order(3), "abcbcacab");
  const auto* cell = measured.cell("b", 64);
  ASSERT_NE(cell, nullptr);
  EXPECT_EQ(cell->rounds, 3u);
  EXPECT_EQ(cell->ns, std::vector<double>(3, 20'000'000));
  EXPECT_EQ(cell->cpu_ns, std::vector<double>(3, 7));
  EXPECT_TRUE(measured.notes.empty());
}

TEST_F(BenchMeasure, FastRoundsAreRepeatedUntilARunIsLongEnough) {
  const auto fast = "echo ok ns=$((rounds*1000)) cpu_ns=1 checked=$bytes bad=0";
  const auto measured = run({program("a", fast)}, 1, {64});
  EXPECT_EQ(measured.cell("a", 64)->rounds, 50'000u);
}

TEST_F(BenchMeasure, AFailingProgramIsNamedAndTheOthersGoOn) {
  const auto measured =
      run({program("a", "echo error it broke"), program("b", steady_)}, 2, {64, 128});
  EXPECT_EQ(measured.cell("a", 64), nullptr);
  ASSERT_EQ(measured.notes.size(), 1u);
  EXPECT_NE(measured.notes[0].find("it broke"), std::string::npos);
  EXPECT_EQ(measured.cell("b", 128)->ns.size(), 2u);
}

TEST_F(BenchMeasure, ADyingProgramIsNamedAndTheOthersGoOn) {
  const auto measured = run({program("a", "exit 3"), program("b", steady_)}, 2, {64});
  ASSERT_EQ(measured.notes.size(), 1u);
  EXPECT_NE(measured.notes[0].find("died"), std::string::npos);
  EXPECT_EQ(measured.cell("b", 64)->ns.size(), 2u);
}

TEST_F(BenchMeasure, WrongDataIsCountedAndNeverTimed) {
  const auto measured = run({program("a", "echo ok ns=1 cpu_ns=1 checked=64 bad=5")}, 2, {64});
  EXPECT_EQ(measured.bad, 5u);
  EXPECT_EQ(measured.cell("a", 64), nullptr);
  ASSERT_EQ(measured.notes.size(), 1u);
  EXPECT_NE(measured.notes[0].find("WRONG DATA"), std::string::npos);
}

TEST_F(BenchMeasure, SizesAProgramCannotTakeAreLeftOutWithTheReason) {
  const auto measured = run({program("a", steady_, "16-100")}, 1, {64, 128});
  EXPECT_NE(measured.cell("a", 64), nullptr);
  EXPECT_EQ(measured.cell("a", 128), nullptr);
  ASSERT_EQ(measured.notes.size(), 1u);
  EXPECT_NE(measured.notes[0].find("takes 16 B to 100 B"), std::string::npos);
}

TEST_F(BenchMeasure, SizesThatDoNotFitIntoMemoryAreLeftOutWithTheReason) {
  auto greedy = program("a", steady_);
  greedy.memory = 1e12;
  const auto measured = run({greedy}, 1, {1000});
  ASSERT_EQ(measured.notes.size(), 1u);
  EXPECT_NE(measured.notes[0].find("of memory"), std::string::npos);
}

TEST_F(BenchMeasure, AMissingProgramSaysHowToGetIt) {
  const Variant missing{.id = "ucx", .title = "UCX", .selector = "ucx", .program = "not-there"};
  const auto measured = run({missing, missing}, 1, {64});
  ASSERT_EQ(measured.notes.size(), 1u);
  EXPECT_NE(measured.notes[0].find("apt install libucx-dev"), std::string::npos);
}

TEST_F(BenchMeasure, AnInterruptKeepsWhatThereIsAndStopsTheChildren) {
  on_progress_ = [](const Progress& now) {
    if (now.repetition == 2) raise(SIGINT);
  };
  const auto hang = "echo $$ >>" + folder_ + "/pids; " + steady_;
  const auto measured = run({program("a", hang), program("b", hang)}, 100, {64});
  EXPECT_TRUE(measured.interrupted);
  EXPECT_EQ(measured.cell("a", 64)->ns.size(), 2u);
  std::ifstream pids(folder_ + "/pids");
  for (pid_t pid = 0; pids >> pid;) EXPECT_EQ(kill(pid, 0), -1) << pid;
}

TEST_F(BenchMeasure, AProgramThatNeverAnswersIsGivenUp) {
  const auto variant = program("a", "sleep 60");
  auto child = cli::ChildProgram::start(folder_ + "/a", {});
  ASSERT_TRUE(child.has_value());
  const auto answer = child->ask("run bytes=1 rounds=1", Deadline::after(50ms));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace ferry::bench
