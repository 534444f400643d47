#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "ferry/fabric/device.h"

// Two devices of one process, which share nothing but what shared memory gives them: also what
// the thread sanitizer runs.

namespace ferry::fabric {
namespace {

using std::chrono::seconds;

Deadline soon() { return Deadline::after(seconds(20)); }

Device open_device(std::size_t copy_threads = 0) {
  Options options;
  options.provider = "shm";
  options.copy_threads = copy_threads;
  auto device = Device::open(options);
  EXPECT_TRUE(device) << device.error().to_string();
  return *std::move(device);
}

// a connects to b.
struct Pair {
  Device a;
  Device b;
  Channel to_b;
  Channel to_a;

  explicit Pair(std::size_t copy_threads = 0)
      : a(open_device(copy_threads)), b(open_device(copy_threads)) {
    auto made = a.connect(b.endpoint());
    EXPECT_TRUE(made) << made.error().to_string();
    to_b = *std::move(made);
    auto accepted = b.accept(soon());
    EXPECT_TRUE(accepted) << accepted.error().to_string();
    to_a = *std::move(accepted);
  }
};

void fill(std::span<std::byte> bytes, unsigned seed) {
  std::mt19937 random(seed);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
}

std::vector<std::byte> some_bytes(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  fill(bytes, seed);
  return bytes;
}

// Memory of the peer's: from its arenas, or its own.
struct Target {
  std::vector<std::byte> own;
  Region region;
  RemoteRegion grant;

  Target(Device& device, std::size_t size, bool arena) {
    if (!arena) own.resize(size);
    region = arena ? *device.allocate(size) : *device.register_memory(own);
    grant = *device.grant(region, Rights::kAll);
  }
};

class ShmLanes : public ::testing::TestWithParam<bool> {};

TEST_P(ShmLanes, WritesAndReadsEverySize) {
  Pair pair;
  Target target(pair.b, 3 << 20, GetParam());
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{4096},
                           std::size_t{70001}, std::size_t{300000}, (std::size_t{3} << 20) - 7}) {
    auto sent = some_bytes(size, static_cast<unsigned>(size));
    auto written = pair.to_b.write(sent, {target.grant, 5 % (size + 1)}).wait();
    ASSERT_TRUE(written) << written.error().to_string();
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), target.region.data() + 5 % (size + 1)))
        << size;
    std::vector<std::byte> got(size);
    auto read = pair.to_b.read(got, {target.grant, 5 % (size + 1)}).wait();
    ASSERT_TRUE(read) << read.error().to_string();
    EXPECT_EQ(got, sent) << size;
  }
}

TEST_P(ShmLanes, FlagIsSeenAfterItsBytes) {
  Pair pair;
  constexpr std::size_t kSize = 600'000;
  Target target(pair.b, kSize, GetParam());
  Target flags(pair.b, 64, true);
  Target ack(pair.a, 64, true);
  std::thread receiver([&] {
    for (std::uint64_t round = 1; round <= 200; ++round) {
      ASSERT_TRUE(pair.to_a.wait_flag(flags.region.data(), round, soon()));
      auto stamp = static_cast<std::byte>(round);
      std::size_t size = round % 3 == 0 ? kSize : 64 * round;
      for (std::size_t i = 0; i < size; i += 61) ASSERT_EQ(target.region.data()[i], stamp) << i;
      std::byte none{};
      ASSERT_TRUE(pair.to_a.write_flagged({&none, 0}, ack.grant, ack.grant, round).wait());
    }
  });
  Region source = *pair.a.allocate(kSize);
  for (std::uint64_t round = 1; round <= 200; ++round) {
    std::size_t size = round % 3 == 0 ? kSize : 64 * round;
    std::memset(source.data(), static_cast<int>(round & 0xff), size);
    auto sent = pair.to_b.write_flagged({source.data(), size}, target.grant, flags.grant, round);
    ASSERT_TRUE(pair.to_b.wait_flag(ack.region.data(), round, soon()));
    auto status = sent.wait();
    ASSERT_TRUE(status) << status.error().to_string();
  }
  receiver.join();
}

TEST_P(ShmLanes, AtomicsFromBothEnds) {
  Pair pair;
  Target word(pair.b, 64, GetParam());
  auto add = [](Channel& channel, const RemoteRegion& at) {
    for (int i = 0; i < 500; ++i) {
      auto added = channel.fetch_add(at, 1);
      auto status = added.wait();
      ASSERT_TRUE(status) << status.error().to_string();
    }
  };
  std::thread other([&] { add(pair.to_b, word.grant); });
  add(pair.to_b, word.grant);
  other.join();
  auto swapped = pair.to_b.compare_swap(word.grant, 1000, 7);
  ASSERT_TRUE(swapped.wait());
  EXPECT_EQ(swapped.value(), 1000U);
  auto kept = pair.to_b.compare_swap(word.grant, 1000, 8);
  ASSERT_TRUE(kept.wait());
  EXPECT_EQ(kept.value(), 7U);
}

TEST_P(ShmLanes, MessagesComeAfterWhatWasPostedBefore) {
  Pair pair;
  constexpr std::size_t kSize = 200'000;
  Target target(pair.b, kSize, GetParam());
  std::vector<std::byte> source(kSize);
  std::vector<Transfer> sent;
  for (int round = 1; round <= 50; ++round) {
    std::fill(source.begin(), source.end(), static_cast<std::byte>(round));
    auto write = pair.to_b.write(source, target.grant);
    auto message = pair.to_b.send(std::as_bytes(std::span(&round, 1)));
    int got = 0;
    auto size = pair.to_a.receive(std::as_writable_bytes(std::span(&got, 1)), soon());
    ASSERT_TRUE(size) << size.error().to_string();
    EXPECT_EQ(got, round);
    EXPECT_EQ(target.region.data()[0], static_cast<std::byte>(round));
    EXPECT_EQ(target.region.data()[kSize - 1], static_cast<std::byte>(round));
    ASSERT_TRUE(write.wait());
    ASSERT_TRUE(message.wait());
  }
}

TEST_P(ShmLanes, RefusesWhatWasNotGranted) {
  Pair pair;
  Target target(pair.b, 4096, GetParam());
  auto bytes = some_bytes(64, 1);
  auto code = [&](const RemoteRegion& grant, std::uint64_t offset) {
    auto status = pair.to_b.write(bytes, {grant, offset}).wait();
    return status ? Code::kOk : status.error().code();
  };
  EXPECT_EQ(code(target.grant, 0), Code::kOk);
  auto longer = target.grant;
  longer.length = 1 << 20;
  EXPECT_EQ(code(longer, 4064), Code::kOutOfRange);
  auto forged = target.grant;
  forged.key ^= std::uint64_t{1} << 40;
  EXPECT_EQ(code(forged, 0), Code::kNotFound);
  auto stale = target.grant;
  stale.epoch += 1;
  EXPECT_EQ(code(stale, 0), Code::kFailedPrecondition);
  auto read_only = *pair.b.grant(target.region, Rights::kRead);
  read_only.rights = Rights::kAll;
  EXPECT_EQ(code(read_only, 0), Code::kPermissionDenied);
  ASSERT_TRUE(pair.b.revoke(target.grant, soon()));
  EXPECT_EQ(code(target.grant, 0), Code::kFailedPrecondition);
  EXPECT_TRUE(pair.to_b.alive());
}

TEST_P(ShmLanes, BothEndsStreamAtOnceWithoutDeadlock) {
  Pair pair;
  constexpr std::size_t kSize = 3 << 20;
  Target at_b(pair.b, kSize, GetParam());
  Target at_a(pair.a, kSize, GetParam());
  auto run = [&](Channel& channel, const RemoteRegion& grant, unsigned seed) {
    auto bytes = some_bytes(kSize, seed);
    std::vector<std::byte> back(kSize);
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(channel.write(bytes, grant).wait());
      ASSERT_TRUE(channel.read(back, grant).wait());
      ASSERT_EQ(back, bytes);
    }
  };
  std::thread other([&] { run(pair.to_a, at_a.grant, 3); });
  run(pair.to_b, at_b.grant, 4);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Memory, ShmLanes, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Arena" : "Own"; });

TEST(ShmLane, FullRingHoldsMessagesBackUntilThereIsRoom) {
  Pair pair;
  constexpr int kCount = 64;  // four times what the ring holds
  std::vector<std::vector<std::byte>> messages;
  std::vector<Transfer> sent;
  for (int i = 0; i < kCount; ++i) messages.push_back(some_bytes(4096, static_cast<unsigned>(i)));
  for (auto& message : messages) sent.push_back(pair.to_b.send(message));
  EXPECT_FALSE(sent.back().poll());
  std::vector<std::byte> got(4096);
  for (auto& message : messages) {
    auto size = pair.to_a.receive(got, soon());
    ASSERT_TRUE(size) << size.error().to_string();
    EXPECT_EQ(*size, 4096U);
    EXPECT_EQ(got, message);
  }
  for (auto& transfer : sent) EXPECT_TRUE(transfer.wait());
}

TEST(ShmLane, FullRingEndsByDeadlineAndByCancel) {
  Pair pair;
  auto message = some_bytes(4096, 9);
  Transfer transfer;
  do {
    OpOptions options;
    options.deadline = Deadline::after(std::chrono::milliseconds(50));
    transfer = pair.to_b.send(message, std::move(options));
  } while (transfer.poll());
  auto late = transfer.wait();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kDeadlineExceeded);
  auto given_up = pair.to_b.send(message);
  given_up.cancel();
  auto status = given_up.wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kCancelled);
}

TEST(ShmLane, MapsThePeersMemory) {
  Pair pair;
  Target target(pair.b, 8192, true);
  auto mapped = pair.to_b.map(target.grant);
  ASSERT_TRUE(mapped) << mapped.error().to_string();
  (*mapped)[17] = std::byte{42};
  EXPECT_EQ(target.region.data()[17], std::byte{42});
  // In use here: the owner cannot know when that ends.
  auto revoked = pair.b.revoke(target.grant, Deadline::after(std::chrono::milliseconds(100)));
  ASSERT_FALSE(revoked);
  EXPECT_EQ(revoked.error().code(), Code::kDeadlineExceeded);
  (*mapped)[18] = std::byte{43};
}

TEST(ShmLane, LearnsOfArenasMadeLater) {
  Pair pair;
  std::vector<Target> targets;
  for (int i = 0; i < 4; ++i) targets.emplace_back(pair.b, 40 << 20, true);
  auto bytes = some_bytes(100'000, 5);
  for (auto& target : targets) {
    ASSERT_TRUE(pair.to_b.write(bytes, target.grant).wait());
    EXPECT_EQ(std::memcmp(target.region.data(), bytes.data(), bytes.size()), 0);
    ASSERT_TRUE(pair.to_b.map(target.grant));
  }
}

TEST(ShmLane, TeamCopiesWhatOneThreadWould) {
  Pair pair(2);
  constexpr std::size_t kSize = (20 << 20) + 13;
  Target target(pair.b, kSize, true);
  auto bytes = some_bytes(kSize, 6);
  for (int i = 0; i < 3; ++i) {
    std::memset(target.region.data(), 0, kSize);
    ASSERT_TRUE(pair.to_b.write(bytes, target.grant).wait());
    ASSERT_EQ(std::memcmp(target.region.data(), bytes.data(), kSize), 0);
    std::vector<std::byte> back(kSize);
    ASSERT_TRUE(pair.to_b.read(back, target.grant).wait());
    ASSERT_EQ(back, bytes);
  }
}

TEST(ShmLane, ClosedPeerFailsWhatIsPosted) {
  Pair pair;
  Target target(pair.b, 4096, false);
  pair.to_a.close();
  auto bytes = some_bytes(64, 1);
  auto end = soon();
  Status status;
  while (status && !end.expired()) status = pair.to_b.write(bytes, target.grant).wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace ferry::fabric
