#include <cstring>
#include <deque>
#include <thread>

#include "tests/contract/fixture.h"
#include "tests/contract/flood.h"

namespace ferry::contract {
namespace {

class Messages : public ContractTest {
 protected:
  std::size_t max_message() { return ab().capabilities().max_message; }
};

TEST_F(Messages, ArriveInOrderWithTheirSizes) {
  open();
  auto count = rounds(2000);
  std::thread sender([&] {
    std::vector<std::byte> out(max_message());
    for (int i = 0; i < count; ++i) {
      auto size =
          static_cast<std::size_t>(i * 37) % (std::min<std::size_t>(max_message(), 600) + 1);
      auto message = std::span(out).first(size);
      stamp(message, static_cast<std::uint64_t>(i));
      EXPECT_EQ(code_of(ab().send(message, {.deadline = soon()}).wait()), Code::kOk);
    }
  });
  std::vector<std::byte> into(max_message());
  for (int i = 0; i < count; ++i) {
    auto size = must(ba().receive(into, soon()));
    ASSERT_EQ(size,
              static_cast<std::size_t>(i * 37) % (std::min<std::size_t>(max_message(), 600) + 1));
    ASSERT_TRUE(stamped(std::span(into).first(size), static_cast<std::uint64_t>(i)));
  }
  sender.join();
}

// What was given up half-way is out of the way of what comes after it, also for a spinning
// receiver.
TEST_F(Messages, ComeAfterAWriteThatWasCancelled) {
  open();
  auto target = make_piece(b(), 8UL << 20, Memory::kOwn);
  std::vector<std::byte> bytes(target.bytes().size());
  for (int i = 0; i < rounds(6); ++i) {
    std::thread receiver([&] {
      std::vector<std::byte> into(max_message());
      EXPECT_EQ(must(ba().receive(into, soon(), WaitMode::kSpin)), 2U);
    });
    auto transfer = ab().write(bytes, target.remote, {.deadline = soon()});
    for (int spin = 0; spin < i * 20; ++spin) std::this_thread::yield();
    transfer.cancel();
    auto code = code_of(transfer.wait());
    EXPECT_TRUE(code == Code::kOk || code == Code::kCancelled || code == Code::kUnavailable)
        << name_of(code);
    Code sent = Code::kUnknown;
    for (auto deadline = soon(); sent != Code::kOk && !deadline.expired();)
      sent = code_of(ab().send(std::span(bytes).first(2), {.deadline = soon()}).wait());
    EXPECT_EQ(sent, Code::kOk);
    receiver.join();
  }
}

TEST_F(Messages, GoBothWays) {
  open();
  std::thread echo([&] {
    std::vector<std::byte> buffer(max_message());
    for (int i = 0; i < rounds(300); ++i) {
      auto size = must(ba().receive(buffer, soon()));
      must(ba().send(std::span(buffer).first(size), {.deadline = soon()}));
    }
  });
  std::vector<std::byte> out(64);
  std::vector<std::byte> back(max_message());
  for (int i = 0; i < rounds(300); ++i) {
    stamp(out, static_cast<std::uint64_t>(i));
    must(ab().send(out, {.deadline = soon()}));
    ASSERT_EQ(must(ab().receive(back, soon())), out.size());
    ASSERT_TRUE(stamped(std::span(back).first(64), static_cast<std::uint64_t>(i)));
  }
  echo.join();
}

TEST_F(Messages, TheLargestFitsAndOneByteMoreDoesNot) {
  open();
  std::vector<std::byte> out(max_message() + 1);
  std::vector<std::byte> into(max_message());
  stamp(out, 1);
  EXPECT_EQ(code_of(ab().send(out).wait()), Code::kInvalidArgument);
  auto largest = std::span(out).first(max_message());
  must(ab().send(largest, {.deadline = soon()}));
  EXPECT_EQ(must(ba().receive(into, soon())), max_message());
  EXPECT_TRUE(stamped(into, 1));
}

TEST_F(Messages, EmptyOnesAreMessagesToo) {
  open();
  std::byte into[8];
  must(ab().send({}, {.deadline = soon()}));
  EXPECT_EQ(must(ba().receive(into, soon())), 0U);
}

TEST_F(Messages, ABufferThatIsTooSmallLosesNothing) {
  open();
  std::byte out[100];
  std::byte small[10];
  std::byte large[200];
  stamp(out, 3);
  must(ab().send(out, {.deadline = soon()}));
  EXPECT_EQ(code_of(ba().receive(small, soon())), Code::kResourceExhausted);
  EXPECT_EQ(must(ba().receive(large, soon())), 100U);
  EXPECT_TRUE(stamped(std::span(large).first(100), 3));
}

TEST_F(Messages, ReceiveGivesUpAtItsDeadline) {
  open();
  std::byte into[8];
  for (auto mode : {WaitMode::kSpin, WaitMode::kSleep, WaitMode::kAdaptive}) {
    EXPECT_EQ(code_of(ba().receive(into, Deadline::after(20ms), mode)), Code::kDeadlineExceeded);
  }
}

TEST_F(Messages, WakeASleeper) {
  open();
  std::byte out[8]{};
  std::byte into[8];
  std::thread sender([&] {
    for (int i = 0; i < rounds(20); ++i) {
      std::this_thread::sleep_for(3ms);
      must(ab().send(out, {.deadline = soon()}));
    }
  });
  for (int i = 0; i < rounds(20); ++i) must(ba().receive(into, soon(), WaitMode::kSleep));
  sender.join();
}

TEST_F(Messages, FollowTheWritesBeforeThem) {
  open();
  constexpr std::size_t kBytes = 100'000;
  auto target = make_piece(b(), kBytes);
  auto source = make_piece(a(), kBytes);
  for (int i = 0; i < rounds(100); ++i) {
    auto round = static_cast<std::uint64_t>(i);
    stamp(source.bytes(), round);
    auto written = ab().write(source.bytes(), target.remote, {.deadline = soon()});
    auto sent = ab().send(std::as_bytes(std::span(&round, 1)), {.deadline = soon()});
    std::uint64_t seen = 0;
    must(ba().receive(std::as_writable_bytes(std::span(&seen, 1)), soon()));
    EXPECT_EQ(seen, round);
    ASSERT_TRUE(stamped(target.bytes(), round)) << "the message overtook the write";
    must(written.wait());
    must(sent.wait());
  }
}

// Unread messages hold up their sender, not its one-sided traffic, and none is lost.
TEST_F(Messages, UnreadOnesHoldUpOnlyMessages) {
  open();
  auto target = make_piece(b(), 1000);
  Flood flood(ab(), 512);
  ASSERT_TRUE(flood.fill()) << "the peer takes messages without end";
  std::vector<std::byte> bytes(1000);
  for (int i = 0; i < rounds(50); ++i) {
    stamp(bytes, static_cast<std::uint64_t>(i));
    must(ab().write(bytes, target.remote, {.deadline = soon()}));
    ASSERT_TRUE(stamped(target.bytes(), static_cast<std::uint64_t>(i)));
    must(ab().read(bytes, target.remote, {.deadline = soon()}));
  }
  EXPECT_EQ(flood.drain(ba()), "");
}

TEST_F(Messages, SeveralSendersMixButEachKeepsItsOrder) {
  open();
  constexpr std::uint64_t kSenders = 3;
  auto count = static_cast<std::uint64_t>(rounds(300));
  std::vector<std::thread> senders;
  for (std::uint64_t s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t words[2] = {s, i};
        must(ab().send(std::as_bytes(std::span(words)), {.deadline = soon()}));
      }
    });
  }
  std::vector<std::uint64_t> next(kSenders, 0);
  for (std::uint64_t i = 0; i < kSenders * count; ++i) {
    std::uint64_t words[2] = {};
    auto got = ba().receive(std::as_writable_bytes(std::span(words)), soon());
    if (!got || words[0] >= kSenders) {
      ADD_FAILURE() << (got ? "a message of nobody's" : got.error().to_string());
      break;
    }
    EXPECT_EQ(words[1], next[words[0]]++);
  }
  for (auto& sender : senders) sender.join();
}

TEST_F(Messages, SentBeforeTheEndAreStillReadAfterIt) {
  open();
  std::byte out[8]{};
  std::byte into[8];
  for (int i = 0; i < 3; ++i) must(ab().send(out, {.deadline = soon()}));
  must(ba().receive(into, soon()));
  ab().close();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(code_of(ba().receive(into, soon())), Code::kOk);
  EXPECT_EQ(code_of(ba().receive(into, soon())), Code::kUnavailable);
}

}  // namespace
}  // namespace ferry::contract
