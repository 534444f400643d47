#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/contract/flood.h"
#include "tests/contract/peer.h"

namespace ferry::contract {
namespace {

// What the peer is in the middle of when it is killed or stopped: each repeats one kind of
// operation and returns the outcome of the first that fails.
struct Activity {
  const char* name;
  std::function<Status(Device&, Channel&)> run;
};

template <class F>
Status until_failure(F&& operation) {
  auto limit = in(60s);
  while (!limit.expired()) FERRY_TRY(operation());
  return {};
}

Status writes(Device& device, Channel& channel, std::size_t bytes, Memory memory) {
  order(channel, fmt::format("{} target {}", memory == Memory::kArena ? "arena" : "own", bytes));
  auto there = FERRY_TRY(channel.look_up("target", soon()));
  auto local = FERRY_TRY(device.allocate(bytes));
  return until_failure([&] { return channel.write(local.bytes(), there).wait(); });
}

Status reads(Device&, Channel& channel, std::size_t bytes, Memory memory) {
  order(channel, fmt::format("{} target {}", memory == Memory::kArena ? "arena" : "own", bytes));
  auto there = FERRY_TRY(channel.look_up("target", soon()));
  std::vector<std::byte> local(bytes);
  return until_failure([&] { return channel.read(local, there).wait(); });
}

const std::vector<Activity>& activities() {
  static const std::vector<Activity> all = {
      {"small writes", [](Device& d, Channel& c) { return writes(d, c, 64, Memory::kArena); }},
      {"large writes", [](Device& d, Channel& c) { return writes(d, c, 4 << 20, Memory::kArena); }},
      {"large writes to own memory",
       [](Device& d, Channel& c) { return writes(d, c, 4 << 20, Memory::kOwn); }},
      {"small reads", [](Device& d, Channel& c) { return reads(d, c, 64, Memory::kArena); }},
      {"large reads of own memory",
       [](Device& d, Channel& c) { return reads(d, c, 4 << 20, Memory::kOwn); }},
      {"flagged writes",
       [](Device&, Channel& channel) -> Status {
         order(channel, "arena target 4096");
         auto there = FERRY_TRY(channel.look_up("target", soon()));
         std::vector<std::byte> bytes(4000);
         std::uint64_t round = 0;
         return until_failure([&] {
           return channel.write_flagged(bytes, there, {there, 4000}, ++round).wait();
         });
       }},
      {"atomics",
       [](Device&, Channel& channel) -> Status {
         order(channel, "arena target 64");
         auto there = FERRY_TRY(channel.look_up("target", soon()));
         return until_failure([&] { return channel.fetch_add(there, 1).wait(); });
       }},
      {"unread messages",
       [](Device&, Channel& channel) -> Status {
         std::string mute = "mute";
         FERRY_TRY(channel.send(std::as_bytes(std::span(mute))).wait());
         std::byte message[64]{};
         return until_failure([&] { return channel.send(message, {.deadline = in(60s)}).wait(); });
       }},
      {"waiting for a message",
       [](Device&, Channel& channel) -> Status {
         std::byte message[64];
         FERRY_TRY(channel.receive(message, in(60s)));
         return {};
       }},
      {"waiting for a flag",
       [](Device& device, Channel& channel) -> Status {
         auto region = FERRY_TRY(device.allocate(8));
         return channel.wait_flag(region.data(), 1, in(60s), WaitMode::kSleep);
       }},
      {"looking up a name",
       [](Device&, Channel& channel) -> Status {
         FERRY_TRY(channel.look_up("never published", in(60s)));
         return {};
       }},
      {"being written to",
       [](Device& device, Channel& channel) -> Status {
         auto mine = make_piece(device, 1 << 20);
         FERRY_TRY(device.publish("mine", mine.remote));
         auto busy = fmt::format("busy mine {}", 1 << 20);
         FERRY_TRY(channel.send(std::as_bytes(std::span(busy))).wait());
         std::byte message[64];
         FERRY_TRY(channel.receive(message, in(60s)));
         return {};
       }},
  };
  return all;
}

class PeerDeath : public TwoProcessTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  // Does something to the peer in the middle of an activity; says how that ended and how long
  // after.
  void disturb(int signal_number, Nanos limit, const Options& options = device_options()) {
    if (remote()) GTEST_SKIP() << "the peer's process is on another machine";
    start(options);
    Status outcome;
    std::atomic<std::int64_t> ended{0};
    std::thread worker([&] {
      outcome = activities()[GetParam()].run(*device_, channel_);
      ended = now_ns();
    });
    std::this_thread::sleep_for(patiently(100ms));
    auto start = now_ns();
    peer_->signal(signal_number);
    worker.join();
    ASSERT_FALSE(outcome) << "went on as if nothing had happened";
    EXPECT_EQ(outcome.error().code(), Code::kUnavailable) << outcome.error().to_string();
    auto took = Nanos(ended.load() - start);
    RecordProperty("milliseconds", std::to_string(took / 1ms));
    EXPECT_LT(took / 1ms, patiently(limit) / 1ms);
    EXPECT_FALSE(channel_.alive());
  }
};

TEST_P(PeerDeath, Killed) {
  disturb(SIGKILL, 2s);
  if (IsSkipped() || HasFatalFailure()) return;
  // Another one at the same place can be connected to.
  auto where = peer_->endpoint();
  peer_->reap();
  peer_.reset();
  peer_.emplace(PeerProcess::start(where));
  channel_ = must(device_->connect(where, {.deadline = soon()}));
  expect_order("arena target 64");
  auto there = must(channel_.look_up("target", soon()));
  std::vector<std::byte> bytes(64);
  stamp(bytes, 1);
  must(channel_.write(bytes, there, {.deadline = soon()}));
  expect_order("check target 1");
}

std::string activity_name(const ::testing::TestParamInfo<std::size_t>& info) {
  std::string name = activities()[info.param].name;
  for (auto& letter : name) {
    if (letter == ' ') letter = '_';
  }
  return name;
}

// The silence that is asked for and what it takes to notice; the rest is for a busy machine.
TEST_P(PeerDeath, Stopped) {
  auto options = device_options();
  options.give_up = patiently(2s);
  disturb(SIGSTOP, 8s, options);
  if (IsSkipped() || HasFatalFailure()) return;
  // Once it goes on it can be connected to again.
  peer_->signal(SIGCONT);
  auto where = peer_->endpoint();
  auto deadline = soon();
  Result<Channel> again = device_->connect(where, {.deadline = in(5s)});
  while (!again && !deadline.expired()) again = device_->connect(where, {.deadline = in(5s)});
  channel_ = must(std::move(again));
  expect_order("arena target 64");
}

INSTANTIATE_TEST_SUITE_P(During, PeerDeath, ::testing::Range<std::size_t>(0, 12), activity_name);

}  // namespace
}  // namespace ferry::contract
