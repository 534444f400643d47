#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ferry/fabric/loop_internal.h"

namespace ferry::fabric {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

// Reads bytes from a pipe; completes one "operation" per byte.
class PipeSource : public Loop::Source {
 public:
  PipeSource() {
    int fds[2];
    // Two threads may be told of one byte.
    EXPECT_EQ(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    in_ = Fd(fds[0]);
    out_ = Fd(fds[1]);
  }
  void put() { EXPECT_EQ(::write(out_.get(), "x", 1), 1); }
  int fd() const { return in_.get(); }
  int progress_on_loop() override { return std::exchange(fresh_, 0); }
  void ready_on_loop(std::uint64_t cookie, std::uint32_t) override {
    EXPECT_EQ(cookie, 42U);
    char byte = 0;
    if (::read(in_.get(), &byte, 1) == 1) {
      ++fresh_;
      done_.fetch_add(1);
    }
  }
  void tick_on_loop(std::int64_t) override { ticks_.fetch_add(1); }
  bool has_pending() const override { return wants_ticks_.load(); }

  std::atomic<int> done_{0};
  std::atomic<int> ticks_{0};
  std::atomic<bool> wants_ticks_{false};

 private:
  Fd in_, out_;
  int fresh_ = 0;
};

class LoopTest : public ::testing::TestWithParam<WaitMode> {
 protected:
  LoopTest() : loop_(Loop::open("test", std::chrono::microseconds(20)).value()) {
    loop_->add(&source_);
    EXPECT_TRUE(loop_->watch(source_.fd(), EPOLLIN, &source_, 42));
  }
  ~LoopTest() override { loop_->remove(&source_); }

  static constexpr std::uint64_t kRounds = 2000;
  // What a peer does: stores a flag, rings if somebody sleeps, and waits for the answer.
  void write_and_ring(Bell& bell, std::atomic<std::uint64_t>& flag,
                      const std::atomic<std::uint64_t>& answer) {
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
      flag.store(i, std::memory_order_release);
      light_fence();
      if (bell.flag_sleepers.load(std::memory_order_relaxed) != 0) {
        std::uint64_t one = 1;
        EXPECT_EQ(::write(loop_->event_fd(), &one, sizeof one), 8);
      }
      while (answer.load() < i) std::this_thread::yield();
    }
  }

  std::unique_ptr<Loop> loop_;
  PipeSource source_;
};

TEST_P(LoopTest, WaitersSeeWhatArrives) {
  for (int i = 1; i <= 200; ++i) {
    std::thread writer([&] { source_.put(); });
    EXPECT_TRUE(loop_->wait_until([&] { return source_.done_.load() >= i; }, Deadline::after(kLong),
                                  GetParam()));
    writer.join();
  }
}

TEST_P(LoopTest, ManyWaitersAllWake) {
  constexpr int kWaiters = 4;
  for (int round = 1; round <= 50; ++round) {
    std::vector<std::thread> waiters;
    for (int i = 0; i < kWaiters; ++i)
      waiters.emplace_back([&] {
        EXPECT_TRUE(loop_->wait_until([&] { return source_.done_.load() >= round; },
                                      Deadline::after(kLong), GetParam()));
      });
    source_.put();
    for (auto& waiter : waiters) waiter.join();
  }
}

TEST_P(LoopTest, DeadlineEndsAWait) {
  EXPECT_FALSE(loop_->wait_until([] { return false; },
                                 Deadline::after(std::chrono::milliseconds(5)), GetParam()));
}

TEST_P(LoopTest, NotifyMakesSleepersLookAgain) {
  std::atomic<bool> flag{false};
  std::thread waiter([&] {
    EXPECT_TRUE(loop_->wait_until([&] { return flag.load(); }, Deadline::after(kLong), GetParam()));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  flag.store(true);
  loop_->notify();
  waiter.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, LoopTest,
                         ::testing::Values(WaitMode::kAdaptive, WaitMode::kSpin, WaitMode::kSleep));

TEST_F(LoopTest, PollerMakesProgressWhenNobodyWaits) {
  source_.put();
  auto deadline = Deadline::after(kLong);
  while (source_.done_.load() == 0 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(source_.done_.load(), 1);
}

TEST_F(LoopTest, TicksComeWhileSomethingIsPending) {
  source_.wants_ticks_.store(true);
  auto deadline = Deadline::after(kLong);
  while (source_.ticks_.load() < 3 && !deadline.expired()) std::this_thread::yield();
  EXPECT_GE(source_.ticks_.load(), 3);
}

// Two descriptors that are ready together. Whichever is told first closes the other one, and
// watches a new one under the same number, with which nothing is ready.
class Replacer : public Loop::Source {
 public:
  explicit Replacer(Loop& loop) : loop_(loop) {
    for (auto& end : ends_) {
      end = Fd(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
      EXPECT_TRUE(loop_.watch(end.get(), EPOLLIN, this, 0));
    }
  }
  int progress_on_loop() override { return 0; }
  void ready_on_loop(std::uint64_t cookie, std::uint32_t) override {
    if (cookie == kNew) stale_ = true;
    if (replaced_.exchange(true)) return;
    for (auto& end : ends_) {
      const int number = end.get();
      loop_.unwatch(number);
      const Fd quiet(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      EXPECT_EQ(::dup3(quiet.get(), number, O_CLOEXEC), number);
      EXPECT_TRUE(loop_.watch(number, EPOLLIN, this, kNew));
    }
  }

  std::atomic<bool> replaced_{false};
  std::atomic<bool> stale_{false};

 private:
  static constexpr std::uint64_t kNew = 1;
  Loop& loop_;
  Fd ends_[2];
};

// An event used to be known by the number of its descriptor alone.
TEST_F(LoopTest, AnEventIsNotTakenForOneOfANewDescriptorWithTheSameNumber) {
  std::unique_ptr<Replacer> replacer;
  loop_->with_token([&] { replacer = std::make_unique<Replacer>(*loop_); });
  loop_->add(replacer.get());
  auto limit = Deadline::after(kLong);
  while (!replacer->replaced_ && !limit.expired()) loop_->handle_ready();
  EXPECT_TRUE(replacer->replaced_);
  loop_->with_token([] {});
  EXPECT_FALSE(replacer->stale_);
  loop_->remove(replacer.get());
}

// Whoever finds ready what it waits for makes no progress for others: the poller must.
TEST_F(LoopTest, WaitsThatNeedNothingDoNotKeepThePollerAway) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load())
      loop_->wait_until([] { return true; }, Deadline::after(kLong), WaitMode::kSpin);
  });
  for (int i = 1; i <= 5; ++i) {
    source_.put();
    auto deadline = Deadline::after(std::chrono::seconds(5));
    while (source_.done_.load() < i && !deadline.expired()) std::this_thread::yield();
    EXPECT_EQ(source_.done_.load(), i);
  }
  stop.store(true);
  busy.join();
}

TEST_F(LoopTest, ADeadlineHoldsWhileThereIsAlwaysWork) {
  struct Busy : Loop::Source {
    int progress_on_loop() override { return 1; }
  } always;
  loop_->add(&always);
  for (auto mode : {WaitMode::kSpin, WaitMode::kAdaptive, WaitMode::kSleep})
    EXPECT_FALSE(loop_->wait_until([] { return false; },
                                   Deadline::after(std::chrono::milliseconds(20)), mode));
  loop_->remove(&always);
}

// A bell in memory that others see: whoever stores a flag and sees a sleeper rings; no wake is
// lost.
TEST_F(LoopTest, RemoteWriterWakesSleeperThroughTheBell) {
  auto memory = std::make_shared<Bell>();  // the poller may be at it for a while yet at the end
  Bell& bell = *memory;
  loop_->use_bell(&bell, memory);
  std::atomic<std::uint64_t> flag{0};
  std::atomic<std::uint64_t> answer{0};
  std::thread writer([&] { write_and_ring(bell, flag, answer); });
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    ASSERT_TRUE(loop_->wait_until([&] { return flag.load() >= i; }, Deadline::after(kLong),
                                  WaitMode::kSleep));
    answer.store(i);
  }
  writer.join();
  loop_->use_bell(nullptr);
}

// A thread that sleeps in an epoll of its own, around the loop's descriptor, is woken as well.
TEST_F(LoopTest, RemoteWriterWakesAGuestThroughTheDescriptor) {
  auto memory = std::make_shared<Bell>();
  Bell& bell = *memory;
  loop_->use_bell(&bell, memory);
  Fd outer(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(outer.get(), EPOLL_CTL_ADD, loop_->descriptor(), &wanted), 0);
  std::atomic<std::uint64_t> flag{0};
  std::atomic<std::uint64_t> answer{0};
  std::thread writer([&] { write_and_ring(bell, flag, answer); });
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    while (flag.load() < i) {
      if (!loop_->arm()) continue;
      epoll_event event{};
      int count = flag.load() < i ? ::epoll_wait(outer.get(), &event, 1, 10'000) : 0;
      loop_->disarm();
      if (count > 0) loop_->handle_ready();
      ASSERT_TRUE(count > 0 || flag.load() >= i) << "a wake was lost";
    }
    answer.store(i);
  }
  writer.join();
  EXPECT_EQ(bell.flag_sleepers.load(), 0U);
  loop_->use_bell(nullptr);
}

std::atomic<bool> held{false};
std::atomic<bool> let_go{false};

void hold_thread(int) {
  held = true;
  while (!let_go) ::usleep(1000);
}

// The poller of the loop that has this name.
pid_t poller_of(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm == name) return std::stoi(task.path().filename());
  }
  return 0;
}

// Whether a thread that spins on another loop makes the progress of a loop whose poller is held by
// a signal. It cannot where the signal has come while the poller had the token.
bool poller_is_helped() {
  auto starved = Loop::open("starved", std::chrono::microseconds(20), true).value();
  auto data = Loop::open("data", std::chrono::microseconds(20)).value();
  data->stand_in_for(starved.get());
  PipeSource source;
  source.wants_ticks_ = true;
  starved->add(&source);
  EXPECT_TRUE(starved->watch(source.fd(), EPOLLIN, &source, 42));
  pid_t poller = 0;
  while (poller == 0) poller = poller_of("starved");
  held = let_go = false;
  while (starved->try_progress() != 0) continue;
  EXPECT_EQ(::syscall(SYS_tgkill, ::getpid(), poller, SIGUSR1), 0);
  while (!held) std::this_thread::yield();
  source.put();
  const auto ticks = source.ticks_.load();
  const bool helped = data->wait_until([&] { return source.done_ == 1 && source.ticks_ > ticks; },
                                       Deadline::after(std::chrono::seconds(10)), WaitMode::kSpin);
  let_go = true;
  starved->remove(&source);
  return helped;
}

// A thread that spins on one loop keeps the poller of another from its core, for ever.
TEST(LoopWithout, APollerIsSeenToByThoseWhoSpinElsewhere) {
  auto before = ::signal(SIGUSR1, hold_thread);
  bool helped = false;
  for (int tries = 0; tries < 5 && !helped; ++tries) helped = poller_is_helped();
  EXPECT_TRUE(helped);
  ::signal(SIGUSR1, before);
}

// Pings used to be answered by the thread inside accept() alone, however long it got no processor.
TEST(LoopWithout, AWaiterThatGetsNoProcessorEventsAreSeenToByThePoller) {
  auto loop = Loop::open("test", std::chrono::microseconds(20), true).value();
  PipeSource source;
  loop->add(&source);
  ASSERT_TRUE(loop->watch(source.fd(), EPOLLIN, &source, 42));
  std::atomic<int> looks{0};
  std::atomic<bool> leave{false};
  std::thread waiter([&] {
    loop->wait_until(
        [&] {
          if (++looks == 1) return false;
          while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return true;
        },
        Deadline::after(kLong), WaitMode::kSleep);
  });
  while (looks < 2) std::this_thread::yield();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(300));  // the poller leaves it to the waiter
  source.put();
  for (auto limit = Deadline::after(kLong / 2); source.done_ == 0 && !limit.expired();)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(source.done_, 1);
  leave = true;
  waiter.join();
  loop->remove(&source);
}

}  // namespace
}  // namespace ferry::fabric
