#include "ferry/transfer/dynamic_slot.h"

#include <random>
#include <thread>
#include <tuple>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using tensor::Tensor;
using transfer::Arrival;
using transfer::DynamicOptions;
using transfer::DynamicReceiver;
using transfer::DynamicSender;
using transfer::SenderOptions;
using transfer::Ticket;

const Spec kAnyBytes{ElementType::kU8, must(Shape::of({-1}))};

Spec so_many_bytes(std::size_t bytes) {
  return {ElementType::kU8, must(Shape::of({static_cast<std::int64_t>(bytes)}))};
}

// a sends, b receives.
class DynamicSlots : public ContractTest {
 protected:
  DynamicReceiver receiver_with(DynamicOptions options = {}) {
    return must(DynamicReceiver::open(b(), ba(), kAnyBytes, options));
  }
  DynamicSender sender_for(const DynamicReceiver& receiver, SenderOptions options = {}) {
    auto ticket = must(Ticket::from_wire(receiver.ticket().to_wire()));
    return must(DynamicSender::open(a(), ab(), ticket, kAnyBytes, options));
  }
  void send_stamped(DynamicSender& sender, std::size_t bytes, std::uint64_t seed) {
    auto out = must(sender.output(so_many_bytes(bytes)));
    stamp(out.bytes(), seed);
    must(sender.send(out, soon()));
  }
  void send_foreign(DynamicSender& sender, std::size_t bytes, std::uint64_t seed) {
    std::vector<std::byte> own(bytes);
    stamp(own, seed);
    must(sender.send(must(Tensor::over(so_many_bytes(bytes), own)), soon()));
  }
  void expect_next(DynamicReceiver& receiver, std::size_t bytes, std::uint64_t seed,
                   WaitMode mode = WaitMode::kAdaptive) {
    auto arrival = must(receiver.receive(soon(), mode));
    EXPECT_EQ(arrival.tensor().spec(), so_many_bytes(bytes)) << seed;
    EXPECT_TRUE(stamped(arrival.bytes(), seed)) << seed;
    EXPECT_EQ(code_of(arrival.release()), Code::kOk);
  }
  bool maps() { return ab().capabilities().maps_peer; }
};

using Way = std::tuple<WaitMode, bool, bool>;  // receiver's wait; in place; memory of the edge's
class DynamicWays : public DynamicSlots, public ::testing::WithParamInterface<Way> {};

// Sizes jump around the pad, which grows meanwhile; tensors larger than any pad are among them.
TEST_P(DynamicWays, EveryTensorArrivesOnceWholeAndInOrder) {
  auto [mode, in_place, own] = GetParam();
  open();
  auto receiver =
      receiver_with({{.slots = 3, .spins = mode == WaitMode::kSpin}, 1000, 300'000, in_place});
  auto sender = sender_for(receiver, {.in_place = in_place});
  std::mt19937_64 random(settings().seed);
  std::vector<std::size_t> sizes = {0, 1, 1000, 1024, 1025, 0, 200'000, 300'000, 300'001};
  auto count = static_cast<std::size_t>(rounds(300));
  while (sizes.size() < count) {
    auto octave = random() % 19;
    sizes.push_back(random() % (std::size_t{2} << octave));
  }
  std::thread other([&, own = own] {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      own || i % 3 != 0 ? send_stamped(sender, sizes[i], i) : send_foreign(sender, sizes[i], i);
    must(sender.drain(soon()));
  });
  for (std::size_t i = 0; i < sizes.size() && !HasFailure(); ++i)
    expect_next(receiver, sizes[i], i, mode);
  other.join();
  EXPECT_EQ(sender.stats().tensors, sizes.size());
  EXPECT_EQ(receiver.stats().tensors, sizes.size());
  EXPECT_EQ(sender.stats().in_place > 0, in_place && maps());
}

std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  auto [mode, in_place, own] = info.param;
  std::string name = mode == WaitMode::kSpin    ? "Spinning"
                     : mode == WaitMode::kSleep ? "Sleeping"
                                                : "Adaptive";
  return name + (in_place ? "InPlace" : "ByCopy") + (own ? "" : "Foreign");
}
INSTANTIATE_TEST_SUITE_P(All, DynamicWays,
                         ::testing::Combine(::testing::Values(WaitMode::kSpin, WaitMode::kSleep,
                                                              WaitMode::kAdaptive),
                                            ::testing::Bool(), ::testing::Bool()),
                         way_name);

// What output() gave is; ordinary memory is not, whether it is written or copied first.
TEST_F(DynamicSlots, TensorsFromRegisteredMemoryAreTold) {
  open();
  auto receiver = receiver_with({{}, 65'536, 65'536});
  auto sender = sender_for(receiver);
  for (std::size_t bytes : {4096UL, 60'000UL, 100'000UL}) {  // the last fits no pad
    const auto before = sender.stats().registered;
    send_stamped(sender, bytes, bytes);
    expect_next(receiver, bytes, bytes);
    EXPECT_EQ(sender.stats().registered, before + 1) << bytes;
    send_foreign(sender, bytes, bytes + 1);
    expect_next(receiver, bytes, bytes + 1);
    EXPECT_EQ(sender.stats().registered, before + 1) << bytes;
  }
}

// What fits the pad takes one write; what does not takes a write, a read and an acknowledgement.
TEST_F(DynamicSlots, ATensorThatFitsThePadTakesOneWrite) {
  open();
  auto receiver = receiver_with({{}, 4096, 4096});
  auto sender = sender_for(receiver, {.in_place = false});
  for (std::uint64_t i = 1; i <= 10; ++i) {
    send_stamped(sender, 4096, i);
    expect_next(receiver, 4096, i);
  }
  EXPECT_EQ(sender.stats().writes, 10U);
  EXPECT_EQ(sender.stats().copies, 0U);
  EXPECT_EQ(receiver.stats().reads, 0U);
  send_stamped(sender, 4097, 11);
  expect_next(receiver, 4097, 11);
  EXPECT_EQ(sender.stats().writes, 11U);
  EXPECT_EQ(receiver.stats().reads, maps() ? 0U : 1U);
  EXPECT_EQ(receiver.stats().in_place, maps() ? 1U : 0U);
}

TEST_F(DynamicSlots, ThePadFollowsRecentSizes) {
  open();
  auto receiver = receiver_with({{}, 64, 100'000, false});
  auto sender = sender_for(receiver);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    send_stamped(sender, 90'000, i);
    expect_next(receiver, 90'000, i);
  }
  // Two before the offer; one may cross it, and one takes it up.
  EXPECT_LE(receiver.stats().reads, 4U);
  // Beyond the most it stays with reads.
  for (std::uint64_t i = 1; i <= 5; ++i) {
    send_stamped(sender, 100'001 + 64, i);
    expect_next(receiver, 100'001 + 64, i);
  }
  EXPECT_GE(receiver.stats().reads, 5U);
}

// A part of what output() gave is a tensor like any other, wherever the whole lay.
TEST_F(DynamicSlots, RowsOfAnOutputArriveAsTheyAre) {
  open();
  Spec any{ElementType::kU8, must(Shape::of({-1, 1000}))};
  auto receiver = must(DynamicReceiver::open(b(), ba(), any, {{}, 1 << 20, 1 << 20}));
  auto sender = must(DynamicSender::open(a(), ab(), receiver.ticket(), any));
  for (std::int64_t rows : {3, 30, 300, 2000}) {
    for (auto [first, count] : {std::pair<std::int64_t, std::int64_t>{0, rows},
                                {0, rows - 1},
                                {1, rows - 1},
                                {rows - 1, 1},
                                {0, 1},
                                {1, 0}}) {
      auto out = must(sender.output({ElementType::kU8, must(Shape::of({rows, 1000}))}));
      stamp(out.bytes(), static_cast<std::uint64_t>(rows));
      std::vector<std::byte> whole(out.bytes().begin(), out.bytes().end());
      must(sender.send(must(out.rows(first, first + count)), soon()));
      auto arrival = must(receiver.receive(soon()));
      auto wanted = std::span(whole).subspan(first * 1000, count * 1000);
      EXPECT_TRUE(
          std::equal(wanted.begin(), wanted.end(), arrival.bytes().begin(), arrival.bytes().end()))
          << rows << " rows, " << count << " from " << first;
    }
  }
}

TEST_F(DynamicSlots, ALargeTensorIsTheSendersUntilItIsLetGoOf) {
  open();
  auto receiver = receiver_with({{.slots = 4}, 64, 64});
  auto sender = sender_for(receiver);
  std::vector<Arrival> held;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    send_stamped(sender, 50'000, i);
    held.push_back(must(receiver.receive(soon())));
  }
  for (std::uint64_t i = 1; i <= 4; ++i) EXPECT_TRUE(stamped(held[i - 1].bytes(), i));
  if (maps()) {
    EXPECT_FALSE(must(sender.ready()));
    EXPECT_EQ(code_of(sender.drain(in(20ms))), Code::kDeadlineExceeded);
  }
  held.clear();
  must(sender.drain(soon()));
  auto before = a().stats().memory.in_use;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    send_stamped(sender, 50'000, i);
    expect_next(receiver, 50'000, i);
  }
  // Buffers are used again: at most one for each slot, where an acknowledgement takes its time.
  EXPECT_LT(a().stats().memory.in_use, before + 4 * 60'000);
}

// The receiver holds all that its slots allow while the pad grows: the move takes no slot, and no
// number.
TEST_F(DynamicSlots, ThePadGrowsWhileAllOtherSlotsAreHeld) {
  open();
  auto receiver = receiver_with({{.slots = 3}, 16 << 10, 4 << 20, false});
  auto sender = sender_for(receiver, {.in_place = false});
  constexpr std::uint64_t kCount = 60;
  std::thread other([&] {
    for (std::uint64_t i = 1; i <= kCount; ++i)
      send_foreign(sender, i % 3 == 0 ? 1000 : 90'000 + 10'000 * i, i);
  });
  Arrival held[2];
  for (std::uint64_t i = 1; i <= kCount; ++i) {
    auto arrival = must(receiver.receive(soon()));
    EXPECT_EQ(arrival.sequence(), i);
    EXPECT_TRUE(stamped(arrival.bytes(), i));
    for (const auto& each : held) EXPECT_TRUE(!each || stamped(each.bytes(), each.sequence()));
    held[i % 2] = std::move(arrival);
  }
  other.join();
  EXPECT_LT(receiver.stats().reads, kCount / 2);
}

// A larger pad is a wish: without memory for it every tensor comes all the same.
TEST_F(DynamicSlots, NoTensorIsLostWhenThereIsNoMemoryForALargerPad) {
  auto poor = device_options();
  poor.budget_bytes = 24 << 20;
  open(device_options(), poor);
  auto receiver = receiver_with({{.slots = 16}, 16 << 10, 4 << 20, false});
  auto sender = sender_for(receiver, {.in_place = false});
  for (std::uint64_t i = 1; i <= 20; ++i) {
    send_foreign(sender, 2'000'000, i);
    auto arrival = must(receiver.receive(soon()));
    EXPECT_EQ(arrival.sequence(), i);
    EXPECT_TRUE(stamped(arrival.bytes(), i));
  }
}

TEST_F(DynamicSlots, AReceiverWithoutMemoryGoesOnWhenItHasSomeAgain) {
  auto poor = device_options();
  poor.budget_bytes = 32 << 20;
  open(device_options(), poor);
  constexpr std::uint64_t kCount = 8;
  auto receiver = receiver_with({{.slots = kCount}, 16 << 10, 0, false});
  auto sender = sender_for(receiver);
  for (std::uint64_t i = 1; i <= kCount; ++i) send_stamped(sender, 6'000'000 + i, i);
  std::vector<Arrival> held;
  int refused = 0;
  for (std::uint64_t i = 1; i <= kCount;) {
    auto arrival = receiver.receive(soon());
    if (!arrival) {
      ASSERT_EQ(code_of(arrival), Code::kResourceExhausted);
      ASSERT_FALSE(held.empty());
      held.clear();
      ++refused;
      continue;
    }
    EXPECT_EQ(arrival->sequence(), i);
    EXPECT_TRUE(stamped(arrival->bytes(), i));
    held.push_back(std::move(*arrival));
    ++i;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(DynamicSlots, APadMayBeAsLargeAsAnyTensor) {
  open();
  auto receiver = receiver_with({{}, 64, UINT64_MAX, false});
  auto sender = sender_for(receiver, {.in_place = false});
  for (std::uint64_t i = 1; i <= 10; ++i) {
    send_foreign(sender, 90'000, i);
    expect_next(receiver, 90'000, i);
  }
  EXPECT_LE(receiver.stats().reads, 4U);
}

TEST_F(DynamicSlots, RefusesWhatTheEdgeDoesNotCarry) {
  open();
  Spec matrix{ElementType::kF32, must(Shape::of({-1, 4}))};
  auto receiver = must(DynamicReceiver::open(b(), ba(), matrix));
  EXPECT_EQ(code_of(DynamicSender::open(a(), ab(), receiver.ticket(), kAnyBytes)),
            Code::kInvalidArgument);
  auto sender = must(DynamicSender::open(a(), ab(), receiver.ticket(), matrix));
  Spec good{ElementType::kF32, must(Shape::of({3, 4}))};
  for (const auto& bad :
       {Spec{ElementType::kF32, must(Shape::of({3, 5}))},
        Spec{ElementType::kF32, must(Shape::of({12}))}, Spec{ElementType::kI32, good.shape}}) {
    EXPECT_EQ(code_of(sender.output(bad)), Code::kInvalidArgument);
    std::vector<std::byte> bytes(must(bad.bytes()));
    EXPECT_EQ(code_of(sender.send(must(Tensor::over(bad, bytes)), soon())), Code::kInvalidArgument);
  }
  auto out = must(sender.output(good));
  stamp(out.bytes(), 1);
  must(sender.send(out, soon()));
  auto arrival = must(receiver.receive(soon()));
  EXPECT_EQ(arrival.tensor().spec(), good);
  EXPECT_TRUE(stamped(arrival.bytes(), 1));
}

TEST_F(DynamicSlots, MetadataThatCannotBeIsNamed) {
  open();
  auto receiver = receiver_with({{}, 64, 64});
  auto sender = sender_for(receiver);
  auto region = receiver.ticket().region;
  std::vector<std::byte> nonsense(128, std::byte{0x55});
  must(ab().write_flagged(nonsense, {region, 64 + 64}, {region, 64 + 64 + 128}, 1,
                          {.deadline = soon()}));
  EXPECT_EQ(code_of(receiver.receive(soon())), Code::kDataLoss);
}

// The sender is gone between its metadata and the read.
TEST_F(DynamicSlots, ASenderThatDiesBeforeTheReadIsNamed) {
  open();
  auto receiver = receiver_with({{}, 64, 64, false});
  {
    auto sender = sender_for(receiver);
    send_stamped(sender, 100'000, 1);
  }  // its buffers are revoked
  EXPECT_FALSE(receiver.receive(soon()));
  EXPECT_EQ(code_of(receiver.receive(soon())), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace ferry::contract
