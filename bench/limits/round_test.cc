// Real round programs in real processes: every limit moves right bytes, and a pair that does not is
// found out.
#include "bench/limits/round.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "bench/limits/shm.h"

namespace limits {
namespace {

// A process that reads commands from us, and what it says.
class Talk {
 public:
  explicit Talk(const std::function<void()>& body) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0)
      fail_errno("cannot make pipes");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      ::close(to[1]);
      ::close(from[0]);
      body();
      _exit(0);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = fdopen(to[1], "w");
    out_ = fdopen(from[0], "r");
  }
  ~Talk() {
    std::fclose(in_);
    std::fclose(out_);
    waitpid(pid_, nullptr, 0);
  }
  std::string ask(const std::string& line) {
    tell(line);
    return hear();
  }
  void tell(const std::string& line) {
    std::fprintf(in_, "%s\n", line.c_str());
    std::fflush(in_);
  }
  std::string hear() {
    std::array<char, 1024> line{};
    return std::fgets(line.data(), line.size(), out_) == nullptr ? "" : line.data();
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  FILE* in_ = nullptr;
  FILE* out_ = nullptr;
};

std::function<void()> program(const std::string& name, const std::string& option = "",
                              const std::string& value = "") {
  return [=] {
    const auto path = std::string(FERRY_ROUND_PROGRAMS) + "/" + name;
    execl(path.c_str(), path.c_str(), option.c_str(), value.c_str(), nullptr);
    _exit(127);
  };
}

class EveryLimit : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryLimit, MovesRightBytesInEveryMode) {
  for (const char* copy : {"plain", "nt"}) {
    Talk talk(program(GetParam(), "--copy", copy));
    EXPECT_EQ(talk.ask("hello").rfind("ok name=", 0), 0u);
    for (const char* bytes : {"16", "64", "100", "4096", "70001", "3000000"}) {
      for (const char* mode :
           {"touch=page wait=spin", "touch=all wait=sleep", "touch=bytes wait=spin produce=1"}) {
        const auto answer = talk.ask(std::string("run bytes=") + bytes + " rounds=20 " + mode);
        EXPECT_EQ(answer.rfind("ok ns=", 0), 0u) << bytes << " " << mode << ": " << answer;
        EXPECT_NE(answer.find(" bad=0\n"), std::string::npos) << answer;
        EXPECT_NE(answer.find(std::string(" checked=") + bytes + " "), std::string::npos) << answer;
      }
    }
    talk.tell("quit");
    EXPECT_EQ(talk.hear(), "");
  }
}

TEST_P(EveryLimit, RefusesBadCommandsAndGoesOn) {
  Talk talk(program(GetParam()));
  for (const char* line :
       {"dance", "run ", "run bytes=64", "run bytes=1 rounds=1", "run bytes=64 rounds=0",
        "run bytes=x rounds=1", "run bytes=64 rounds=1 touch=none",
        "run bytes=64 rounds=1 produce=2", "run bytes=64 rounds=1 wait=no",
        "run bytes=99999999999999999999 rounds=1"})
    EXPECT_EQ(talk.ask(line).rfind("error ", 0), 0u) << line;
  EXPECT_EQ(talk.ask("run bytes=64 rounds=1").rfind("ok ", 0), 0u);
}

INSTANTIATE_TEST_SUITE_P(Limits, EveryLimit,
                         ::testing::Values("ferry-limit-shm-in-place", "ferry-limit-shm-memcpy",
                                           "ferry-limit-shm-both", "ferry-limit-shm-private",
                                           "ferry-limit-vm-writev", "ferry-limit-tcp"));

TEST(OneProcess, MakesAndReadsAlone) {
  Talk talk(program("ferry-limit-one-process"));
  EXPECT_EQ(talk.ask("hello").rfind("ok name=one-process", 0), 0u);
  for (const char* mode : {"touch=page produce=0", "touch=bytes produce=1"})
    EXPECT_EQ(talk.ask(std::string("run bytes=70001 rounds=5 ") + mode).rfind("ok ns=", 0), 0u);
  talk.tell("quit");
  EXPECT_EQ(talk.hear(), "");
}

// Says in every seventh round that a tensor is there which it has not copied.
class Liar : public ShmPair {
 public:
  using ShmPair::ShmPair;
  void open(std::uint64_t bytes) override {
    source_ = Memory(bytes);
    landing_ = room(0, bytes);
    if (link_.side() == Side::kGiver) reset_flags();
    link_.meet();
  }
  void close() override {}
  std::span<std::byte> source() override { return source_.bytes(); }
  void give(std::uint32_t round) override {
    if (round % 7 != 0) std::copy(source_.bytes().begin(), source_.bytes().end(), landing_.begin());
    link_.raise(flags_.given, round, sleep_);
    link_.await(flags_.answered, round, sleep_);
  }
  Pieces take(std::uint32_t round) override {
    link_.await(flags_.given, round, sleep_);
    if (round == 100) throw Failure("the taker had enough");
    return taken(landing_);
  }

 private:
  Memory source_;
  std::span<std::byte> landing_;
};

void serve_liar() {
  serve({.name = "liar",
         .what = "lies",
         .shared_bytes = ShmPair::shared_for(1),
         .make = [](Link& link) { return std::make_unique<Liar>(link); }});
}

TEST(Round, AFlagThatOvertakesItsDataIsFoundOut) {
  Talk talk(serve_liar);
  // One round to warm up, then six more; the seventh lies with three marks, and its bytes stay.
  const auto answer = talk.ask("run bytes=4096 rounds=6 wait=sleep");
  EXPECT_EQ(answer.rfind("ok ", 0), 0u) << answer;
  EXPECT_EQ(answer.find(" bad=0"), std::string::npos) << answer;
}

TEST(Round, AFailureOfTheTakerIsToldInItsWords) {
  Talk talk(serve_liar);
  EXPECT_EQ(talk.ask("run bytes=64 rounds=200 wait=sleep"), "error the taker had enough\n");
  EXPECT_EQ(talk.ask("run bytes=64 rounds=1").rfind("error broken by an earlier failure", 0), 0u);
}

// Dies in the third round.
class Mortal : public Liar {
 public:
  using Liar::Liar;
  Pieces take(std::uint32_t round) override {
    if (round == 3) raise(SIGKILL);
    return Liar::take(round);
  }
};

TEST(Round, ADeadTakerIsNoticed) {
  for (const char* wait : {"spin", "sleep"}) {
    Talk talk([] {
      serve({.name = "mortal",
             .what = "dies",
             .shared_bytes = ShmPair::shared_for(1),
             .make = [](Link& link) { return std::make_unique<Mortal>(link); }});
    });
    EXPECT_EQ(talk.ask(std::string("run bytes=64 rounds=9 wait=") + wait),
              "error the receiving process died\n");
  }
}

// A stand-in for perftest's programs, since most hosts have no RDMA device: the server sleeps a
// little, the client prints a table.
class FakePerftest : public ::testing::Test {
 protected:
  FakePerftest() {
    char name[] = "/tmp/ferry-perftest-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~FakePerftest() override { std::filesystem::remove_all(folder_); }

  std::string run_with(const std::string& tool, const std::string& client, const std::string& run) {
    const auto path = folder_ + "/" + tool;
    std::ofstream(path) << "#!/bin/sh\nfor last; do :; done\n"
                        << "[ $last = 127.0.0.1 ] || { sleep 0.1; exit 0; }\n"
                        << client << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    Talk talk([&] {
      setenv("PATH", (folder_ + ":/usr/bin:/bin").c_str(), 1);
      program("ferry-peer-perftest", "--tool", tool)();
    });
    return talk.ask(run);
  }

  std::string folder_;
};

TEST_F(FakePerftest, BandwidthBecomesTheTimeOfAMessage) {
  const auto answer = run_with("ib_write_bw",
                               "echo ' #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]'\n"
                               "echo ' 65536  100   9.10   8.00   0.015'",
                               "run bytes=65536 rounds=100");
  EXPECT_EQ(answer.rfind("ok ns=6553600 ", 0), 0u) << answer;
}

TEST_F(FakePerftest, LatencyIsThereAndBackAndFewRoundsAreScaled) {
  const auto answer =
      run_with("ib_write_lat", "echo ' 16 5 1000 9000 2500 2600 100 3 4'", "run bytes=16 rounds=3");
  ASSERT_EQ(answer.rfind("ok ns=", 0), 0u) << answer;
  const auto ns = std::stod(answer.substr(6));
#if defined(__x86_64__)
  // 15,000 cycles of a processor between 0.2 and 10 GHz.
  EXPECT_GT(ns, 1'500);
  EXPECT_LT(ns, 75'000);
#else
  EXPECT_EQ(ns, 15'000'000);
#endif
}

TEST_F(FakePerftest, WhatItCannotReadIsAnError) {
  const auto answer = run_with("ib_read_bw", "echo no table today", "run bytes=64 rounds=9");
  EXPECT_EQ(answer, "error cannot read what ib_read_bw printed: no table today\n");
}

std::string state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  file >> word >> word >> word;
  return word;
}

TEST(Round, TheTakerDiesWithTheGiver) {
  Talk talk(program("ferry-limit-shm-memcpy"));
  ASSERT_EQ(talk.ask("run bytes=64 rounds=1").rfind("ok ", 0), 0u);
  std::ifstream children("/proc/" + std::to_string(talk.pid()) + "/task/" +
                         std::to_string(talk.pid()) + "/children");
  pid_t taker = 0;
  ASSERT_TRUE(children >> taker);
  // It has answered, but it may not rest yet.
  for (int i = 0; i < 2000 && state_of(taker) != "S"; ++i) usleep(1000);
  EXPECT_EQ(state_of(taker), "S");
  kill(talk.pid(), SIGKILL);
  for (int i = 0; i < 2000 && state_of(taker) == "S"; ++i) usleep(1000);
  EXPECT_NE(state_of(taker), "S");
}

}  // namespace
}  // namespace limits
