#include <atomic>
#include <set>
#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class Lanes : public ContractTest {
 protected:
  static Options many_lanes() {
    auto options = device_options();
    options.lanes_per_peer = 4;
    options.completion_queues = 2;
    return options;
  }
};

TEST_F(Lanes, EveryLaneCanBeNamed) {
  open(many_lanes(), many_lanes());
  auto target = make_piece(b(), 64);
  std::byte bytes[64];
  for (std::uint32_t lane = 1; lane < 6; ++lane) {
    auto ends = connect_more(a(), b(), {.lane = lane});
    stamp(bytes, lane);
    must(ends.ab.write(bytes, target.remote));
    EXPECT_TRUE(stamped(target.bytes(), lane));
  }
  EXPECT_EQ(a().stats().sessions, 1U) << "all lanes belong to one session";
}

TEST_F(Lanes, ChannelsAreSpreadRoundRobinAndShareLanes) {
  open(many_lanes(), many_lanes());
  auto target = make_piece(b(), 64);
  std::byte bytes[64];
  std::vector<Channel> channels;
  for (std::uint64_t i = 0; i < 8; ++i) {
    channels.push_back(must(a().connect(b().endpoint(), {.deadline = soon()})));
    stamp(bytes, i);
    must(channels.back().write(bytes, target.remote));
    EXPECT_TRUE(stamped(target.bytes(), i));
  }
  std::vector<Channel> ends;
  for (int i = 0; i < 3; ++i) ends.push_back(must(b().accept(soon())));
  EXPECT_EQ(a().stats().channels, 4U) << "eight channels on four lanes";
  EXPECT_EQ(code_of(b().accept(Deadline::after(20ms))), Code::kDeadlineExceeded);
}

TEST_F(Lanes, ALaneThatDoesNotExistIsInvalid) {
  open(many_lanes(), many_lanes());
  EXPECT_EQ(code_of(a().connect(b().endpoint(), {.lane = 99, .deadline = soon()})),
            Code::kInvalidArgument);
}

TEST_F(Lanes, MoreThanThePeerAllowsAreRefused) {
  auto stingy = device_options();
  stingy.max_lanes_per_peer = 2;
  open(device_options(), stingy);
  auto second = connect_more(a(), b(), {.lane = 1});
  EXPECT_EQ(code_of(a().connect(b().endpoint(), {.lane = 2, .deadline = soon()})),
            Code::kResourceExhausted);
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  EXPECT_TRUE(ab().write(bytes, target.remote).wait()) << "the others are untouched";
}

TEST_F(Lanes, ThreadsOnLanesOfTheirOwn) {
  open(many_lanes(), many_lanes());
  constexpr int kThreads = 4;
  constexpr std::size_t kBytes = 20'000;
  std::vector<Ends> ends;
  std::vector<Piece> targets;
  for (int t = 0; t < kThreads; ++t) {
    ends.push_back(connect_more(a(), b()));
    targets.push_back(make_piece(b(), kBytes));
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> out(kBytes);
      std::vector<std::byte> back(kBytes);
      for (int i = 0; i < rounds(100); ++i) {
        auto seed = t * 1000 + static_cast<std::uint64_t>(i);
        stamp(out, seed);
        must(ends[t].ab.write(out, targets[t].remote, {.deadline = soon()}));
        must(ends[t].ab.read(back, targets[t].remote, {.deadline = soon()}));
        ASSERT_TRUE(stamped(back, seed));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Lanes, ThreadsOnOneChannel) {
  open();
  constexpr int kThreads = 4;
  constexpr std::size_t kBytes = 10'000;
  auto target = make_piece(b(), kThreads * kBytes);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> out(kBytes);
      std::vector<std::byte> back(kBytes);
      for (int i = 0; i < rounds(100); ++i) {
        auto seed = t * 1000 + static_cast<std::uint64_t>(i);
        stamp(out, seed);
        must(ab().write(out, {target.remote, t * kBytes}, {.deadline = soon()}));
        must(ab().read(back, {target.remote, t * kBytes}, {.deadline = soon()}));
        ASSERT_TRUE(stamped(back, seed));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Lanes, StripedCopiesAreWhole) {
  auto options = many_lanes();
  options.stripe_bytes = 64UL << 10;
  open(options, options, {.stripe = true});
  for (std::size_t bytes : {1UL, 65'535UL, 65'536UL, 65'537UL, 1'000'001UL, (4UL << 20) + 13}) {
    auto target = make_piece(b(), bytes);
    auto local = make_piece(a(), bytes);
    stamp(local.bytes(), bytes);
    must(ab().write(local.bytes(), target.remote, {.deadline = soon()}));
    ASSERT_TRUE(stamped(target.bytes(), bytes));
    stamp(target.bytes(), bytes + 1);
    must(ab().read(local.bytes(), target.remote, {.deadline = soon()}));
    ASSERT_TRUE(stamped(local.bytes(), bytes + 1));
  }
}

TEST_F(Lanes, StripedFlaggedWritesAreWholeWhenTheFlagIsSeen) {
  auto options = many_lanes();
  options.stripe_bytes = 64UL << 10;
  open(options, options, {.stripe = true});
  constexpr std::size_t kBytes = 1'000'000;
  auto target = make_piece(b(), kBytes);
  auto flag = make_piece(b(), 8);
  auto local = make_piece(a(), kBytes);
  for (int i = 1; i <= rounds(50); ++i) {
    auto round = static_cast<std::uint64_t>(i);
    stamp(local.bytes(), round);
    auto sent =
        ab().write_flagged(local.bytes(), target.remote, flag.remote, round, {.deadline = soon()});
    must(ba().wait_flag(flag.data(), round, soon(), WaitMode::kSpin));
    ASSERT_TRUE(stamped(target.bytes(), round)) << "round " << round;
    must(sent.wait());
  }
}

TEST_F(Lanes, ClosingOneLeavesTheOthers) {
  open(many_lanes(), many_lanes());
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  auto first = connect_more(a(), b());
  auto second = connect_more(a(), b());
  first.ab.close();
  first.ba = {};
  EXPECT_TRUE(second.ab.write(bytes, target.remote).wait());
  EXPECT_TRUE(ab().write(bytes, target.remote).wait());
  EXPECT_TRUE(ab().alive());
}

TEST_F(Lanes, SeveralPeersAtOnce) {
  open();
  std::vector<Device> devices;
  std::vector<Ends> ends;
  auto target = make_piece(b(), 64);
  for (int i = 0; i < 4; ++i) {
    devices.push_back(open_device());
    ends.push_back(connect_more(devices.back(), b()));
  }
  EXPECT_EQ(b().stats().sessions, 5U);
  std::byte bytes[64];
  for (std::size_t i = 0; i < ends.size(); ++i) {
    stamp(bytes, i);
    must(ends[i].ab.write(bytes, target.remote));
    EXPECT_TRUE(stamped(target.bytes(), i));
  }
  ends.clear();
}

}  // namespace
}  // namespace ferry::contract
