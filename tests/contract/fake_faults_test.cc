#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <thread>

#include "ferry/fabric/fake/provider.h"
#include "ferry/transfer/dynamic_slot.h"
#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

using fabric::fake::Faults;
using fabric::fake::Script;

// What the fake provider can do to an operation; the contract holds all the same.
class InjectedFaults : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    if (settings().provider != "fake") GTEST_SKIP() << "faults are injected into fake only";
  }
  void TearDown() override {
    Script::clear();
    ContractTest::TearDown();
  }
  // Writes until one is done: a broken lane is connected anew behind the channel.
  // Both ends: each hears in its own time that the lane is another one.
  void expect_works_again() {
    expect_works(ab(), b());
    expect_works(ba(), a());
  }
  void expect_works(Channel& channel, Device& owner) {
    auto target = make_piece(owner, 64);
    std::byte bytes[64]{};
    auto deadline = soon();
    Code last = Code::kUnknown;
    while (last != Code::kOk && !deadline.expired()) {
      last = code_of(channel.write(bytes, target.remote, {.deadline = soon()}).wait());
    }
    EXPECT_EQ(last, Code::kOk);
  }
};

TEST_F(InjectedFaults, DelaysAndDisorderChangeNoBytes) {
  open();
  Script::set({.seed = settings().seed, .max_delay = 300us, .shuffle = true, .piece_bytes = 100});
  constexpr std::size_t kParts = 20;
  constexpr std::size_t kBytes = 1777;
  auto target = make_piece(b(), kParts * kBytes);
  auto source = make_piece(a(), kParts * kBytes);
  auto flag = make_piece(b(), 8);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    stamp(source.bytes(), round);
    std::vector<Transfer> transfers;
    for (std::size_t i = 0; i < kParts; ++i) {
      transfers.push_back(ab().write(source.bytes().subspan(i * kBytes, kBytes),
                                     {target.remote, i * kBytes}, {.deadline = soon()}));
    }
    transfers.push_back(
        ab().write_flagged({}, target.remote, flag.remote, round, {.deadline = soon()}));
    must(b().wait_flag(flag.data(), round, soon()));
    ASSERT_TRUE(stamped(target.bytes(), round)) << "the flag overtook the bytes";
    for (auto& transfer : transfers) must(transfer.wait());
  }
}

TEST_F(InjectedFaults, AFlaggedPayloadInPiecesIsWholeWhenTheFlagIsSeen) {
  open();
  Script::set({.seed = settings().seed, .shuffle = true, .piece_bytes = 64});
  constexpr std::size_t kBytes = 10'000;
  auto target = make_piece(b(), kBytes + 8);
  std::vector<std::byte> out(kBytes);
  for (std::uint64_t round = 1; round <= 30; ++round) {
    stamp(out, round);
    auto sent = ab().write_flagged(out, target.remote, {target.remote, kBytes}, round,
                                   {.deadline = soon()});
    must(ba().wait_flag(target.data() + kBytes, round, soon()));
    ASSERT_TRUE(stamped(target.bytes().first(kBytes), round));
    must(sent.wait());
  }
}

TEST_F(InjectedFaults, MessagesKeepTheirOrderInDisorder) {
  open();
  Script::set({.seed = settings().seed, .max_delay = 200us, .shuffle = true});
  std::vector<Transfer> transfers;
  std::vector<std::uint64_t> numbers(50);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i;
    transfers.push_back(ab().send(std::as_bytes(std::span(&numbers[i], 1)), {.deadline = soon()}));
  }
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    std::uint64_t got = 0;
    must(ba().receive(std::as_writable_bytes(std::span(&got, 1)), soon()));
    EXPECT_EQ(got, i);
  }
  for (auto& transfer : transfers) must(transfer.wait());
}

TEST_F(InjectedFaults, TheNthOperationFailsWithItsNameAndOnlyThatOne) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  for (auto code : {Code::kInternal, Code::kDataLoss, Code::kResourceExhausted}) {
    Script::set({.fail_nth = 3, .fail_code = code});
    for (int i = 1; i <= 5; ++i) {
      EXPECT_EQ(code_of(ab().write(bytes, target.remote, {.deadline = soon()}).wait()),
                i == 3 ? code : Code::kOk);
    }
    EXPECT_EQ(Script::counts().failed, 1U);
  }
}

TEST_F(InjectedFaults, OneFailureOfManyFailsTheWhole) {
  open();
  auto target = make_piece(b(), 1000);
  std::vector<std::byte> bytes(1000);
  Script::set({.fail_nth = 5, .fail_code = Code::kDataLoss});
  std::vector<fabric::Copy> copies;
  for (std::size_t i = 0; i < 10; ++i) {
    copies.push_back({fabric::Direction::kWrite,
                      std::span(bytes).subspan(i * 100, 100),
                      {target.remote, i * 100}});
  }
  std::atomic<int> calls{0};
  auto status =
      ab().copy(copies, {.deadline = soon(), .callback = [&](const Status&) { ++calls; }}).wait();
  EXPECT_EQ(code_of(status), Code::kDataLoss);
  EXPECT_EQ(calls.load(), 1);
}

TEST_F(InjectedFaults, ALostCompletionEndsAtItsDeadline) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  Script::set({.lose_every = 2});
  for (int i = 1; i <= 4; ++i) {
    std::atomic<int> calls{0};
    auto transfer = ab().write(
        bytes, target.remote,
        {.deadline = Deadline::after(50ms), .callback = [&](const Status&) { ++calls; }});
    EXPECT_EQ(code_of(transfer.wait()), i % 2 == 0 ? Code::kDeadlineExceeded : Code::kOk);
    EXPECT_EQ(calls.load(), 1);
  }
  EXPECT_EQ(Script::counts().lost, 2U);
}

TEST_F(InjectedFaults, ALostCompletionCanBeCancelled) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  Script::set({.lose_every = 1});
  auto transfer = ab().write(bytes, target.remote, {.deadline = soon()});
  EXPECT_FALSE(transfer.poll());
  transfer.cancel();
  EXPECT_EQ(code_of(transfer.wait()), Code::kCancelled);
}

TEST_F(InjectedFaults, RepeatedCompletionsAreSwallowed) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  Script::set({.seed = settings().seed, .shuffle = true, .duplicate_every = 2});
  std::atomic<int> calls{0};
  for (int i = 0; i < 100; ++i) {
    must(ab().write(bytes, target.remote,
                    {.deadline = soon(), .callback = [&](const Status&) { ++calls; }}));
  }
  EXPECT_EQ(calls.load(), 100);
  must(ab().read(bytes, target.remote, {.deadline = soon()}));
  EXPECT_GE(Script::counts().duplicates_swallowed, 49U);
}

TEST_F(InjectedFaults, ABrokenLaneIsConnectedAnewFromEitherEnd) {
  open();
  auto target = make_piece(b(), 64);
  auto back = make_piece(a(), 64);
  std::byte bytes[64]{};
  for (int i = 0; i < 4; ++i) {
    Script::set({.break_lane_at = 2});
    Channel& first = i % 2 == 0 ? ab() : ba();
    auto& there = i % 2 == 0 ? target.remote : back.remote;
    EXPECT_EQ(code_of(first.write(bytes, there, {.deadline = soon()}).wait()), Code::kOk);
    EXPECT_EQ(code_of(first.write(bytes, there, {.deadline = soon()}).wait()), Code::kUnavailable);
    expect_works_again();
    EXPECT_EQ(a().stats().sessions, 1U) << "the session outlives its lane";
  }
}

TEST_F(InjectedFaults, ABreakEndsAllThatIsPendingOnce) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  Script::set({.seed = settings().seed, .max_delay = 5ms, .break_lane_at = 50});
  std::atomic<int> calls{0};
  std::vector<Transfer> transfers;
  for (int i = 0; i < 100; ++i) {
    transfers.push_back(ab().write(
        bytes, target.remote, {.deadline = soon(), .callback = [&](const Status&) { ++calls; }}));
  }
  for (auto& transfer : transfers) (void)transfer.wait();
  EXPECT_EQ(calls.load(), 100);
  Script::clear();
  expect_works_again();
}

TEST_F(InjectedFaults, ALostPeerEndsItsChannels) {
  open();
  auto target = make_piece(b(), 64);
  std::byte bytes[64]{};
  Script::set({.lose_peer_at = 1});
  EXPECT_EQ(code_of(ab().write(bytes, target.remote, {.deadline = soon()}).wait()),
            Code::kUnavailable);
  EXPECT_EQ(code_of(ab().receive(bytes, soon())), Code::kUnavailable);
  EXPECT_EQ(code_of(ba().receive(bytes, soon())), Code::kUnavailable);
  EXPECT_FALSE(ab().alive());
  auto deadline = soon();
  while (a().stats().sessions != 0 && !deadline.expired()) std::this_thread::sleep_for(1ms);
  auto again = connect_more(a(), b());
  must(again.ab.write(bytes, target.remote, {.deadline = soon()}));
}

TEST_F(InjectedFaults, RefusedMemoryIsAnErrorAndNothingStays) {
  auto device = open_device();
  std::vector<std::byte> own(1000);
  Script::set({.fail_attach_at = 1});
  EXPECT_EQ(code_of(device.register_memory(own)), Code::kResourceExhausted);
  EXPECT_TRUE(device.register_memory(own));
  auto before = device.stats().memory;
  Script::set({.fail_attach_at = 1});
  EXPECT_EQ(code_of(device.allocate(100UL << 20)), Code::kResourceExhausted);
  EXPECT_EQ(device.stats().memory.in_use, before.in_use);
  EXPECT_TRUE(device.allocate(100UL << 20));
}

// What is under way when the deadline comes may arrive or not: another code than for what was not
// sent at all.
TEST_F(InjectedFaults, ASendThatIsUnderWayAtItsDeadlineIsNotCalledUnsent) {
  open();
  tensor::Spec any{tensor::ElementType::kU8, must(tensor::Shape::of({-1}))};
  tensor::Spec fixed{tensor::ElementType::kU8, must(tensor::Shape::of({100}))};
  auto to_static = must(transfer::StaticReceiver::open(b(), ba(), fixed));
  auto to_dynamic = must(transfer::DynamicReceiver::open(b(), ba(), any));
  auto statics =
      must(transfer::StaticSender::open(a(), ab(), to_static.ticket(), fixed, {.in_place = false}));
  auto dynamics =
      must(transfer::DynamicSender::open(a(), ab(), to_dynamic.ticket(), any, {.in_place = false}));
  std::vector<std::byte> bytes(100);
  auto tensor = must(tensor::Tensor::over(fixed, bytes));
  Script::set({.lose_every = 1});
  EXPECT_EQ(code_of(statics.send(tensor, in(20ms))), Code::kAborted);
  EXPECT_EQ(code_of(dynamics.send(tensor, in(20ms))), Code::kAborted);
  EXPECT_EQ(code_of(statics.send(tensor, soon())), Code::kFailedPrecondition);
  EXPECT_EQ(code_of(dynamics.send(tensor, soon())), Code::kFailedPrecondition);
}

TEST_F(InjectedFaults, ATensorThatIsBeingReadKeepsNobodyBeyondTheirDeadline) {
  open();
  tensor::Spec any{tensor::ElementType::kU8, must(tensor::Shape::of({-1}))};
  auto receiver = must(transfer::DynamicReceiver::open(b(), ba(), any, {{}, 64, 64, false}));
  auto sender = must(transfer::DynamicSender::open(a(), ab(), receiver.ticket(), any));
  std::vector<std::byte> bytes(100'000);
  tensor::Spec large{tensor::ElementType::kU8, must(tensor::Shape::of({100'000}))};
  must(sender.send(must(tensor::Tensor::over(large, bytes)), soon()));
  Script::set({.lose_every = 1});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(code_of(receiver.receive(in(20ms))), Code::kDeadlineExceeded);
}

// The NUMA node that the memory at this address is bound to; -1: to none.
Result<int> node_bound_to(const std::byte* at) {
  int mode = 0;
  unsigned long nodes[16] = {};
  constexpr unsigned long kAddress = MPOL_F_ADDR;
  if (::syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, at, kAddress) != 0)
    return fail_errno(errno, "asking where memory is bound to");
  return mode == MPOL_BIND ? std::countr_zero(nodes[0]) : -1;
}

Device open_with_nic() {
  fabric::Options options;
  options.provider = "fake";
  return must(Device::open(options));
}

TEST_F(InjectedFaults, ArenasAreOnTheNodeOfTheNic) {
  auto path = fake_path();
  for (const int nic : {-1, 0}) {
    path.numa_node = nic;
    Script::use_path(path);
    auto device = open_with_nic();
    auto region = must(device.allocate(64));
    const auto bound = node_bound_to(region.data());
    Script::use_path(fake_path());
    if (!bound) GTEST_SKIP() << bound.error().to_string();
    EXPECT_EQ(*bound, nic);
  }
}

// As in a container that may not use the NIC's node.
TEST_F(InjectedFaults, ANodeThatCannotBeUsedKeepsNobodyFromMemory) {
  auto path = fake_path();
  path.numa_node = 900;
  Script::use_path(path);
  auto device = open_with_nic();
  auto region = device.allocate(64);
  Script::use_path(fake_path());
  EXPECT_TRUE(region) << region.error().to_string();
}

TEST_F(InjectedFaults, OneSeedGivesOneRun) {
  auto run = [&] {
    open();
    auto target = make_piece(b(), 64);
    std::byte bytes[64]{};
    Script::set({.seed = 77, .shuffle = true, .fail_nth = 7, .lose_every = 5});
    std::string story;
    for (int i = 0; i < 20; ++i) {
      auto status = ab().write(bytes, target.remote, {.deadline = Deadline::after(40ms)}).wait();
      story += name_of(code_of(status));
    }
    Script::clear();
    return story;
  };
  auto first = run();
  EXPECT_EQ(first, run());
}

// It used to be offered a larger pad, through which every later tensor was copied.
TEST_F(InjectedFaults, ATensorThatCouldNotBeMappedInTimeLeavesItsEdgeInPlace) {
  open();
  if (!ba().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  const tensor::Spec edge{tensor::ElementType::kU8, must(tensor::Shape::of({-1}))};
  auto to = must(transfer::DynamicReceiver::open(b(), ba(), edge, {{.slots = 2}, 4096, 1 << 20}));
  auto from = must(transfer::DynamicSender::open(a(), ab(), to.ticket(), edge));
  constexpr std::uint64_t kEach = 5;
  const auto cross = [&](std::int64_t bytes, std::uint64_t seed, bool late) {
    auto out = must(from.output({tensor::ElementType::kU8, must(tensor::Shape::of({bytes}))}));
    stamp(out.bytes(), seed);
    must(from.send(out, soon()));
    Script::set({.late_maps = late});  // for the receiver alone
    EXPECT_TRUE(stamped(must(to.receive(soon())).bytes(), seed));
    Script::clear();
  };
  cross(64, 1, false);  // either end has mapped the words of the other
  for (std::uint64_t seed = 1; seed <= kEach; ++seed) cross(1 << 16, seed, true);
  EXPECT_EQ(to.stats().reads, kEach);
  for (std::uint64_t seed = 1; seed <= kEach; ++seed) cross(1 << 16, seed, false);
  EXPECT_EQ(to.stats().in_place, kEach);
}

}  // namespace
}  // namespace ferry::contract
