#include <atomic>
#include <limits>
#include <thread>

#include "tests/contract/fixture.h"
#include "tests/contract/flood.h"

namespace ferry::contract {
namespace {

class Completions : public ContractTest {
 protected:
  void wait_for(const std::atomic<int>& counter, int value) {
    auto deadline = soon();
    while (counter.load() < value && !deadline.expired()) std::this_thread::sleep_for(1ms);
  }
};

TEST_F(Completions, ByCallbackWithoutAnybodyWaiting) {
  open();
  auto target = make_piece(b(), 1UL << 16);
  std::vector<std::byte> bytes(1UL << 16);
  std::atomic<int> calls{0};
  std::atomic<int> good{0};
  auto count = rounds(100);
  for (int i = 0; i < count; ++i) {
    auto transfer = ab().write(bytes, target.remote,
                               {.deadline = soon(), .callback = [&](const Status& status) {
                                  if (status) ++good;
                                  ++calls;
                                }});
    // The transfer is dropped: the callback alone tells.
  }
  wait_for(calls, count);
  EXPECT_EQ(calls.load(), count);
  EXPECT_EQ(good.load(), count);
}

TEST_F(Completions, ByPolling) {
  open();
  auto target = make_piece(b(), 1UL << 16);
  std::vector<std::byte> bytes(1UL << 16);
  stamp(bytes, 9);
  auto transfer = ab().write(bytes, target.remote, {.deadline = soon()});
  auto deadline = soon();
  while (!transfer.poll() && !deadline.expired()) std::this_thread::yield();
  EXPECT_TRUE(transfer.poll());
  EXPECT_EQ(code_of(transfer.wait()), Code::kOk);
  EXPECT_TRUE(stamped(target.bytes(), 9));
}

TEST_F(Completions, ByWaitingInEveryMode) {
  open();
  auto target = make_piece(b(), 1UL << 16);
  std::vector<std::byte> bytes(1UL << 16);
  for (auto mode : {WaitMode::kSpin, WaitMode::kSleep, WaitMode::kAdaptive}) {
    for (int i = 0; i < rounds(20); ++i) {
      EXPECT_EQ(code_of(ab().write(bytes, target.remote, {.deadline = soon()}).wait(mode)),
                Code::kOk);
      EXPECT_EQ(code_of(ab().read(bytes, target.remote, {.deadline = soon()}).wait(mode)),
                Code::kOk);
    }
  }
}

TEST_F(Completions, WaitingTwiceSaysTheSame) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[128]{};
  auto good = ab().write(std::span(bytes).first(64), target.remote);
  EXPECT_TRUE(good.wait());
  EXPECT_TRUE(good.wait());
  auto bad = ab().write(bytes, target.remote);
  EXPECT_EQ(code_of(bad.wait()), Code::kOutOfRange);
  EXPECT_EQ(code_of(bad.wait()), Code::kOutOfRange);
}

TEST_F(Completions, CallbacksRunOnceForEveryVerb) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  std::atomic<int> calls{0};
  auto once = [&]() -> fabric::OpOptions {
    return {.deadline = soon(), .callback = [&calls](const Status&) { ++calls; }};
  };
  must(ab().write(bytes, target.remote, once()));
  must(ab().read(bytes, target.remote, once()));
  must(ab().write_flagged(bytes, target.remote, target.remote, 1, once()));
  must(ab().fetch_add(target.remote, 1, once()));
  must(ab().compare_swap(target.remote, 0, 1, once()));
  must(ab().send(bytes, once()));
  EXPECT_EQ(calls.load(), 6);
  // And when they fail, at once or later.
  EXPECT_FALSE(ab().write(bytes, {target.remote, 60}, once()).wait());
  auto forged = target.remote;
  forged.key ^= 0x7700'0000'0000'0000ULL;
  EXPECT_FALSE(ab().write(bytes, forged, once()).wait());
  EXPECT_EQ(calls.load(), 8);
  must(ba().receive(bytes, soon()));
}

TEST_F(Completions, ACallbackMayPostTheNextOperation) {
  open();
  auto target = make_piece(b(), 64);
  struct Chain {
    Channel& channel;
    RemoteRegion remote;
    std::vector<std::byte> bytes = std::vector<std::byte>(64);
    std::atomic<int> left;
    std::atomic<int> failed{0};
    void next() {
      auto transfer = channel.write(bytes, remote,
                                    {.deadline = soon(), .callback = [this](const Status& status) {
                                       if (!status) ++failed;
                                       // Only deep chains show a recursion without end.
                                       if (left.fetch_sub(1) > 1) next();
                                     }});
    }
  };
  Chain chain{.channel = ab(), .remote = target.remote, .left = rounds(100)};
  chain.next();
  auto deadline = soon();
  while (chain.left.load() > 0 && !deadline.expired()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(chain.left.load(), 0);
  EXPECT_EQ(chain.failed.load(), 0);
}

TEST_F(Completions, ADeadlineInThePastEndsTheOperation) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  for (int i = 0; i < rounds(20); ++i) {
    // It may still get done: what it may not is stay.
    auto code =
        code_of(ab().write(bytes, target.remote, {.deadline = Deadline::after(1ns)}).wait());
    EXPECT_TRUE(code == Code::kOk || code == Code::kDeadlineExceeded || code == Code::kUnavailable)
        << name_of(code);
  }
}

TEST_F(Completions, AStuckOperationEndsAtItsDeadline) {
  open();
  Flood flood(ab(), 512);
  ASSERT_TRUE(flood.fill());
  std::atomic<int> calls{0};
  flood.post(100ms, [&calls](const Status&) { ++calls; });
  EXPECT_EQ(code_of(flood.last().wait()), Code::kDeadlineExceeded);
  EXPECT_EQ(calls.load(), 1);
}

TEST_F(Completions, AStuckOperationCanBeCancelled) {
  open();
  Flood flood(ab(), 512);
  ASSERT_TRUE(flood.fill());
  std::atomic<int> calls{0};
  flood.post(60s, [&calls](const Status&) { ++calls; });
  EXPECT_FALSE(flood.last().poll());
  flood.last().cancel();
  EXPECT_EQ(code_of(flood.last().wait()), Code::kCancelled);
  EXPECT_EQ(calls.load(), 1);
}

TEST_F(Completions, TheChannelWorksAfterADeadline) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  {
    Flood flood(ab(), 512);
    ASSERT_TRUE(flood.fill(300ms));
    EXPECT_EQ(code_of(flood.last().wait()), Code::kDeadlineExceeded);
  }
  auto deadline = soon();
  Code last = Code::kUnknown;
  while (last != Code::kOk && !deadline.expired()) {
    last = code_of(ab().write(bytes, target.remote, {.deadline = soon()}).wait());
  }
  EXPECT_EQ(last, Code::kOk);
}

TEST_F(Completions, ADeadlineCanBeAsFarAwayAsTimeGoes) {
  open();
  auto target = make_piece(b(), 1UL << 16, Memory::kOwn);
  std::vector<std::byte> bytes(1UL << 16);
  auto never = Deadline::at_ns(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(code_of(ab().write(bytes, target.remote, {.deadline = never}).wait()), Code::kOk);
}

TEST_F(Completions, CancellingWhatIsDoneChangesNothing) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  auto transfer = ab().write(bytes, target.remote);
  must(transfer.wait());
  transfer.cancel();
  EXPECT_EQ(code_of(transfer.wait()), Code::kOk);
}

// Cancelled copies end once, and the caller's bytes are the caller's again.
TEST_F(Completions, CopiesCanBeCancelledAtAnyMoment) {
  open();
  auto target = make_piece(b(), 1UL << 20);
  std::vector<std::byte> bytes(1UL << 20);
  for (int i = 0; i < rounds(30); ++i) {
    std::atomic<int> calls{0};
    fabric::OpOptions options{.deadline = soon(), .callback = [&](const Status&) { ++calls; }};
    auto transfer = i % 2 == 0 ? ab().write(bytes, target.remote, std::move(options))
                               : ab().read(bytes, target.remote, std::move(options));
    for (int spin = 0; spin < i * 50; ++spin) std::this_thread::yield();
    transfer.cancel();
    auto code = code_of(transfer.wait());
    EXPECT_TRUE(code == Code::kOk || code == Code::kCancelled || code == Code::kUnavailable)
        << name_of(code);
    EXPECT_EQ(calls.load(), 1);
    stamp(bytes, static_cast<std::uint64_t>(i));
  }
}

TEST_F(Completions, ClosingTheChannelEndsWhatIsPending) {
  open();
  Flood flood(ab(), 512);
  ASSERT_TRUE(flood.fill());
  std::atomic<int> calls{0};
  for (int i = 0; i < 10; ++i) flood.post(60s, [&calls](const Status&) { ++calls; });
  ab().close();
  EXPECT_EQ(calls.load(), 10) << "every callback has run when close() returns";
  EXPECT_EQ(code_of(flood.last().wait()), Code::kCancelled);
}

TEST_F(Completions, ThePeersCloseEndsWhatIsPending) {
  open();
  Flood flood(ab(), 512);
  ASSERT_TRUE(flood.fill());
  std::atomic<int> calls{0};
  for (int i = 0; i < 10; ++i) flood.post(60s, [&calls](const Status&) { ++calls; });
  ba().close();
  EXPECT_EQ(code_of(flood.last().wait()), Code::kUnavailable);
  wait_for(calls, 10);
  EXPECT_EQ(calls.load(), 10);
}

TEST_F(Completions, ClosingTheDeviceEndsWhatIsPending) {
  open();
  Flood flood(ab(), 512);
  ASSERT_TRUE(flood.fill());
  std::atomic<int> calls{0};
  for (int i = 0; i < 10; ++i) flood.post(60s, [&calls](const Status&) { ++calls; });
  std::thread waiter([&] { EXPECT_NE(code_of(flood.last().wait()), Code::kOk); });
  std::this_thread::sleep_for(10ms);
  b().close();
  waiter.join();
  wait_for(calls, 10);
  EXPECT_EQ(calls.load(), 10);
}

TEST_F(Completions, AProgramWithALoopOfItsOwnMakesProgress) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  std::atomic<int> calls{0};
  auto transfer = ab().write(bytes, target.remote,
                             {.deadline = soon(), .callback = [&](const Status&) { ++calls; }});
  auto deadline = soon();
  while (calls.load() == 0 && !deadline.expired()) {
    a().progress();
    b().progress();
  }
  EXPECT_EQ(calls.load(), 1);
}

}  // namespace
}  // namespace ferry::contract
