#include <algorithm>
#include <optional>
#include <thread>

#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/shared_tensor.h"
#include "tests/contract/fixture.h"
#include "tests/stall.h"

// Tensors whose sender goes on, or gives the receiver up, while the receiver is between its look
// at a tensor and the copy: what the receiver gets is an error or whole. See
// docs/design/late-readers.md.

namespace ferry::contract {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using transfer::Arrival;
using transfer::DynamicOptions;
using transfer::DynamicReceiver;
using transfer::DynamicSender;
using transfer::SharedReader;
using transfer::SharedWriter;
using transfer::Ticket;
using trial::Stall;

constexpr std::int64_t kLateTensor = 1 << 20;
const Spec kLateEdge{ElementType::kU8, must(Shape::of({-1}))};
const Spec kLateSpec{ElementType::kU8, must(Shape::of({kLateTensor}))};

// a sends tensors that fit no pad, b receives.
class LateTensor : public ContractTest {
 protected:
  static constexpr DynamicOptions kRead{{.slots = 2}, 4096, 4096, false};
  static constexpr DynamicOptions kInPlace{{.slots = 2}, 4096, 4096, true};

  static bool copies_mapped() { return settings().provider == "shm"; }
  DynamicReceiver receiver(const DynamicOptions& options) {
    return must(DynamicReceiver::open(b(), ba(), kLateEdge, options));
  }
  std::optional<DynamicSender> sender_to(const DynamicReceiver& receiver) {
    return must(DynamicSender::open(a(), ab(), receiver.ticket(), kLateEdge));
  }
  static Status send(DynamicSender& sender, std::uint64_t seed, Deadline deadline = soon()) {
    auto out = must(sender.output(kLateSpec));
    stamp(out.bytes(), seed);
    return sender.send(out, deadline);
  }
  // Both ends know all of each other that they need.
  static void warm_up(DynamicSender& from, DynamicReceiver& to) {
    must(send(from, 100));
    EXPECT_TRUE(stamped(must(to.receive(soon())).bytes(), 100));
  }
  // What a does with memory that is its own again.
  std::vector<Region> use_memory_of_a() {
    std::vector<Region> others;
    for (int i = 0; i < 8; ++i) {
      others.push_back(must(a().allocate(std::size_t{kLateTensor} + 4096)));
      auto bytes = others.back().bytes();
      std::fill(bytes.begin(), bytes.end(), std::byte{17});
    }
    return others;
  }
};

TEST_F(LateTensor, AReadOfADynamicTensorFailsIfItsSenderEndsMeanwhile) {
  if (!copies_mapped()) GTEST_SKIP() << "nothing is mapped, or reads are done under a lock";
  open();
  auto to = receiver(kRead);
  auto from = sender_to(to);
  warm_up(*from, to);
  must(send(*from, 1));
  Stall stall(StallPoint::kReadMapped);
  Result<Arrival> received = Arrival();
  std::thread late([&] { received = to.receive(soon()); });
  const bool stopped = Stall::await(soon());
  from.reset();
  const auto others = use_memory_of_a();
  Stall::let_go();
  late.join();
  ASSERT_TRUE(stopped);
  EXPECT_EQ(code_of(received), Code::kFailedPrecondition);
}

// The sender waits in vain for a slot, has tensors made in other memory, and sends on.
TEST_F(LateTensor, ADynamicTensorThatIsBeingReadIsNotOverwrittenByLaterOnes) {
  if (!copies_mapped()) GTEST_SKIP() << "nothing is mapped, or reads are done under a lock";
  open();
  auto to = receiver(kRead);
  auto from = sender_to(to);
  must(send(*from, 1));
  Stall stall(StallPoint::kReadMapped);
  Result<Arrival> first = Arrival();
  std::thread late([&] { first = to.receive(soon()); });
  const bool stopped = Stall::await(soon());
  must(send(*from, 2));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(code_of(send(*from, 17, in(20ms))), Code::kDeadlineExceeded);
  Stall::let_go();
  late.join();
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stamped(must(std::move(first)).bytes(), 1));
  EXPECT_TRUE(stamped(must(to.receive(soon())).bytes(), 2));
  must(send(*from, 3));
  EXPECT_TRUE(stamped(must(to.receive(soon())).bytes(), 3));
}

// The receiver is late for the whole of it: the metadata is there, and its sender is not.
TEST_F(LateTensor, ADynamicTensorWhoseSenderHasEndedIsAnErrorOrWhole) {
  open();
  for (const auto& options : {kRead, kInPlace}) {
    auto to = receiver(options);
    auto from = sender_to(to);
    warm_up(*from, to);
    must(send(*from, 1));
    from.reset();
    const auto others = use_memory_of_a();
    const auto received = to.receive(soon());
    if (received) {
      EXPECT_TRUE(stamped(received->bytes(), 1));
    }
  }
}

TEST_F(LateTensor, ADynamicTensorInPlaceOutlivesItsSender) {
  open();
  if (!ab().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  auto to = receiver(kInPlace);
  auto from = sender_to(to);
  must(send(*from, 1));
  auto arrival = must(to.receive(soon()));
  ASSERT_EQ(to.stats().in_place, 1U);
  from.reset();
  const auto others = use_memory_of_a();
  EXPECT_TRUE(stamped(arrival.bytes(), 1));
  (void)arrival.release();
}

// a writes versions, a reader at b copies them, since it holds the first one in place.
class LateVersion : public LateTensor {
 protected:
  void SetUp() override {
    LateTensor::SetUp();
    if (IsSkipped()) return;
    open();
    if (!ab().capabilities().maps_peer) GTEST_SKIP() << "this path maps nothing";
  }
  static void publish(SharedWriter& writer) {
    stamp(must(writer.output(soon())).bytes(), ++published);
    must(writer.publish());
  }
  static inline std::uint64_t published = 0;
};

TEST_F(LateVersion, ACopyOfAVersionFailsIfTheWriterGivesTheReaderUpMeanwhile) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the version is overwritten before it is copied: a race by design, which the "
                  "thread sanitizer names";
#endif
  published = 0;
  auto writer = must(SharedWriter::open(a(), kLateSpec));
  auto more = connect_more(a(), b());
  auto reader = must(SharedReader::open(b(), more.ba, must(writer.admit(more.ab)), kLateSpec));
  publish(writer);
  auto held = must(reader.read(1, soon()));
  publish(writer);
  Stall stall(StallPoint::kCopyVersion);
  Result<Arrival> copied = Arrival();
  std::thread late([&] { copied = reader.read(2, soon()); });
  const bool stopped = Stall::await(soon());
  more.ab = {};
  for (int i = 0; i < 5; ++i) publish(writer);
  Stall::let_go();
  late.join();
  ASSERT_TRUE(stopped);
  EXPECT_EQ(code_of(copied), Code::kUnavailable);
  EXPECT_EQ(code_of(held.release()), Code::kUnavailable);
}

TEST_F(LateVersion, AVersionThatIsBeingCopiedIsNotOverwritten) {
  published = 0;
  auto writer = must(SharedWriter::open(a(), kLateSpec, {.versions = 4}));
  auto reader = must(SharedReader::open(b(), ba(), must(writer.admit(ab())), kLateSpec));
  publish(writer);
  auto held = must(reader.read(1, soon()));
  publish(writer);
  Stall stall(StallPoint::kCopyVersion);
  Result<Arrival> copied = Arrival();
  std::thread late([&] { copied = reader.read(2, soon()); });
  const bool stopped = Stall::await(soon());
  for (int i = 0; i < 10; ++i) publish(writer);  // the two that nobody uses, in turn
  Stall::let_go();
  late.join();
  ASSERT_TRUE(stopped);
  const auto second = must(std::move(copied));
  EXPECT_EQ(second.sequence(), 2U);
  EXPECT_TRUE(stamped(second.bytes(), 2));
  EXPECT_TRUE(stamped(held.bytes(), 1));
}

}  // namespace
}  // namespace ferry::contract
