#include "ferry/transfer/static_slot.h"

#include <array>
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
using transfer::SenderOptions;
using transfer::StaticReceiver;
using transfer::StaticSender;
using transfer::Ticket;

Spec bytes_spec(std::size_t bytes) {
  return {ElementType::kU8, must(Shape::of({static_cast<std::int64_t>(bytes)}))};
}

// a sends, b receives.
class StaticSlots : public ContractTest {
 protected:
  StaticReceiver receiver_of(const Spec& spec, std::uint32_t slots = 2, bool spins = false) {
    return must(StaticReceiver::open(b(), ba(), spec, {.slots = slots, .spins = spins}));
  }
  // The ticket travels as bytes.
  StaticSender sender_for(const StaticReceiver& receiver, const Spec& spec,
                          SenderOptions options = {}) {
    auto ticket = must(Ticket::from_wire(receiver.ticket().to_wire()));
    EXPECT_EQ(ticket, receiver.ticket());
    return must(StaticSender::open(a(), ab(), ticket, spec, options));
  }
  void send_stamped(StaticSender& sender, std::uint64_t seed) {
    auto out = must(sender.output());
    stamp(out.bytes(), seed);
    must(sender.send(out, soon()));
  }
  void expect_next(StaticReceiver& receiver, std::uint64_t seed,
                   WaitMode mode = WaitMode::kAdaptive) {
    auto arrival = must(receiver.receive(soon(), mode));
    EXPECT_TRUE(stamped(arrival.bytes(), seed)) << seed;
    EXPECT_EQ(code_of(arrival.release()), Code::kOk);
  }
};

using Way = std::tuple<WaitMode, bool>;  // how the receiver waits; in place where possible
class StaticWays : public StaticSlots, public ::testing::WithParamInterface<Way> {};

TEST_P(StaticWays, EveryTensorArrivesOnceWholeAndInOrder) {
  auto [mode, in_place] = GetParam();
  open();
  for (std::size_t bytes : {0UL, 1UL, 8UL, 64UL, 4096UL, 65'537UL, 1UL << 20, (9UL << 20) + 8}) {
    auto spec = bytes_spec(bytes);
    auto receiver = receiver_of(spec, 2, mode == WaitMode::kSpin);
    auto sender = sender_for(receiver, spec, {.in_place = in_place});
    auto count = static_cast<std::uint64_t>(rounds(bytes > 100'000 ? 8 : 200));
    std::thread other([&] {
      for (std::uint64_t i = 1; i <= count; ++i) send_stamped(sender, i);
      must(sender.drain(soon()));
    });
    for (std::uint64_t i = 1; i <= count && !HasFailure(); ++i) expect_next(receiver, i, mode);
    other.join();
    EXPECT_EQ(sender.stats().tensors, count);
    bool maps = ab().capabilities().maps_peer;
    EXPECT_EQ(sender.stats().in_place > 0, in_place && maps);
    ASSERT_FALSE(HasFailure()) << bytes;
  }
}

std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  auto [mode, in_place] = info.param;
  std::string name = mode == WaitMode::kSpin    ? "Spinning"
                     : mode == WaitMode::kSleep ? "Sleeping"
                                                : "Adaptive";
  return name + (in_place ? "InPlace" : "ByCopy");
}
INSTANTIATE_TEST_SUITE_P(All, StaticWays,
                         ::testing::Combine(::testing::Values(WaitMode::kSpin, WaitMode::kSleep,
                                                              WaitMode::kAdaptive),
                                            ::testing::Bool()),
                         way_name);

// What output() gave, memory of an arena, and ordinary memory.
TEST_F(StaticSlots, TensorsFromRegisteredMemoryAreTold) {
  open();
  const auto spec = bytes_spec(100'000);
  auto receiver = receiver_of(spec);
  auto sender = sender_for(receiver, spec);
  send_stamped(sender, 1);
  expect_next(receiver, 1);
  EXPECT_EQ(sender.stats().registered, 1U);
  std::vector<std::byte> ordinary(100'000);
  stamp(ordinary, 2);
  must(sender.send(must(tensor::Tensor::over(spec, std::span(ordinary))), soon()));
  expect_next(receiver, 2);
  EXPECT_EQ(sender.stats().registered, 1U);
  auto arena = must(a().allocate(100'000));
  stamp(arena.bytes(), 3);
  must(sender.send(must(tensor::Tensor::over(spec, arena.bytes())), soon()));
  expect_next(receiver, 3);
  EXPECT_EQ(sender.stats().registered, 2U);
  EXPECT_EQ(sender.stats().tensors, 3U);
}

TEST_F(StaticSlots, InPlaceIsTheDefaultWhereThePathMaps) {
  open();
  auto spec = bytes_spec(4096);
  auto receiver = receiver_of(spec);
  auto sender = sender_for(receiver, spec);
  must(sender.output());
  EXPECT_EQ(sender.output_in_place(), ab().capabilities().maps_peer);
  send_stamped(sender, 1);
  EXPECT_EQ(sender.stats().writes, ab().capabilities().maps_peer ? 0U : 1U);
  expect_next(receiver, 1);
}

TEST_F(StaticSlots, ASenderWaitsForASlotAndLosesNothing) {
  open();
  auto spec = bytes_spec(1000);
  auto receiver = receiver_of(spec, 3);
  auto sender = sender_for(receiver, spec);
  for (std::uint64_t i = 1; i <= 3; ++i) send_stamped(sender, i);
  EXPECT_FALSE(must(sender.ready()));
  // Production goes on, in registered memory.
  auto out = must(sender.output());
  EXPECT_FALSE(sender.output_in_place());
  stamp(out.bytes(), 4);
  EXPECT_EQ(code_of(sender.send(out, in(20ms))), Code::kDeadlineExceeded);
  std::array<Arrival, 3> held;
  for (auto& arrival : held) arrival = must(receiver.receive(soon()));
  EXPECT_FALSE(must(receiver.ready()));
  // Slots are let go of in any order; the next tensor needs the first.
  must(held[2].release());
  must(held[1].release());
  EXPECT_EQ(code_of(sender.send(out, in(20ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(must(sender.output()).data(), out.data());
  EXPECT_TRUE(stamped(held[0].bytes(), 1));
  must(held[0].release());
  must(sender.send(out, soon()));
  send_stamped(sender, 5);
  expect_next(receiver, 4);
  expect_next(receiver, 5);
  must(sender.drain(soon()));
}

TEST_F(StaticSlots, DrainWaitsForEveryTensor) {
  open();
  auto spec = bytes_spec(64);
  for (std::uint32_t slots : {1U, 2U, 3U}) {
    auto receiver = receiver_of(spec, slots);
    auto sender = sender_for(receiver, spec);
    must(sender.drain(soon()));
    for (std::uint64_t i = 1; i <= 5; ++i) {
      send_stamped(sender, i);
      auto held = must(receiver.receive(soon()));
      EXPECT_EQ(code_of(sender.drain(in(5ms))), Code::kDeadlineExceeded) << slots << " " << i;
      must(held.release());
      must(sender.drain(soon()));
    }
  }
}

TEST_F(StaticSlots, TensorsInOrdinaryMemoryAreSentToo) {
  open();
  Spec spec{ElementType::kF32, must(Shape::of({25, 10}))};
  auto receiver = receiver_of(spec);
  auto sender = sender_for(receiver, spec);
  std::vector<float> values(250);
  auto bytes = std::as_writable_bytes(std::span(values));
  for (std::uint64_t i = 1; i <= 5; ++i) {
    stamp(bytes, i);
    must(sender.send(must(Tensor::over(spec, bytes)), soon()));
    auto arrival = must(receiver.receive(soon()));
    EXPECT_EQ(arrival.tensor().spec(), spec);
    EXPECT_EQ(arrival.sequence(), i);
    EXPECT_TRUE(stamped(arrival.bytes(), i));
  }
}

TEST_F(StaticSlots, RefusesTicketsAndTensorsThatDoNotFit) {
  open();
  auto spec = bytes_spec(64);
  auto receiver = receiver_of(spec);
  EXPECT_EQ(code_of(StaticSender::open(a(), ab(), receiver.ticket(), bytes_spec(65))),
            Code::kInvalidArgument);
  Spec other{ElementType::kI8, spec.shape};
  EXPECT_EQ(code_of(StaticSender::open(a(), ab(), receiver.ticket(), other)),
            Code::kInvalidArgument);
  auto stranger = receiver.ticket();
  stranger.owner = a().id();
  EXPECT_EQ(code_of(StaticSender::open(a(), ab(), stranger, spec)), Code::kFailedPrecondition);
  auto wide = receiver.ticket().to_wire();
  wide[16] = std::byte{0xFF};  // slots larger than the region
  EXPECT_FALSE(Ticket::from_wire(wide));
  EXPECT_EQ(code_of(StaticReceiver::open(b(), ba(), {ElementType::kU8, must(Shape::of({-1}))})),
            Code::kFailedPrecondition);
  EXPECT_EQ(code_of(StaticReceiver::open(b(), ba(), spec, {.slots = 0})), Code::kInvalidArgument);
  auto sender = sender_for(receiver, spec);
  std::vector<std::byte> large(65);
  EXPECT_EQ(code_of(sender.send(must(Tensor::over(bytes_spec(65), large)), soon())),
            Code::kInvalidArgument);
  send_stamped(sender, 1);
  expect_next(receiver, 1);
}

TEST_F(StaticSlots, ATicketOfAReceiverThatIsGoneIsRefused) {
  open();
  auto spec = bytes_spec(64);
  auto receiver = std::make_unique<StaticReceiver>(receiver_of(spec));
  auto ticket = receiver->ticket();
  receiver.reset();
  auto sender = StaticSender::open(a(), ab(), ticket, spec);
  EXPECT_EQ(code_of(sender), Code::kFailedPrecondition);
}

// A flag that is stale, doubled or forged is seen as such.
TEST_F(StaticSlots, AFlagThatCannotBeIsNamed) {
  open();
  auto spec = bytes_spec(64);
  auto receiver = receiver_of(spec);
  auto sender = sender_for(receiver, spec);
  constexpr std::uint64_t kFirstFlag = 64 + 64;
  auto region = receiver.ticket().region;
  must(ab().write_flagged({}, region, {region, kFirstFlag}, 3, {.deadline = soon()}));
  EXPECT_EQ(code_of(receiver.receive(soon())), Code::kDataLoss);
}

TEST_F(StaticSlots, AnAcknowledgementThatCannotBeIsNamed) {
  open();
  auto spec = bytes_spec(64);
  auto receiver = receiver_of(spec);
  auto sender = sender_for(receiver, spec);
  for (std::uint64_t i = 1; i <= 2; ++i) send_stamped(sender, i);
  std::array<std::byte, RemoteRegion::kWireBytes> hello;
  must(ab().read(hello, receiver.ticket().region));
  auto words = must(RemoteRegion::from_wire(hello));
  must(ba().write_flagged({}, words, words, 7, {.deadline = soon()}));
  std::vector<std::byte> out(64);
  EXPECT_EQ(code_of(sender.send(must(Tensor::over(spec, out)), soon())), Code::kDataLoss);
}

TEST_F(StaticSlots, AReceiverIsToldThatItsSenderIsGone) {
  open();
  auto spec = bytes_spec(64);
  auto receiver = receiver_of(spec);
  {
    auto sender = sender_for(receiver, spec);
    send_stamped(sender, 1);
    expect_next(receiver, 1);
  }
  ab().close();
  pair().a->close();
  EXPECT_EQ(code_of(receiver.receive(soon())), Code::kUnavailable);
}

TEST_F(StaticSlots, ASenderIsToldThatItsReceiverIsGone) {
  open();
  auto spec = bytes_spec(64);
  auto sender = [&] {
    auto receiver = receiver_of(spec);
    auto made = sender_for(receiver, spec);
    send_stamped(made, 1);
    expect_next(receiver, 1);
    return made;
  }();
  ba().close();
  pair().b->close();
  auto out = make_piece(a(), 64);
  auto deadline = soon();
  Status sent;
  while (sent && !deadline.expired())
    sent = sender.send(must(Tensor::over(spec, out.bytes())), soon());
  EXPECT_FALSE(sent);
}

}  // namespace
}  // namespace ferry::contract
