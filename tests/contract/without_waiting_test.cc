// Both edges as an executor uses them: start, look, finish; nobody waits for one edge alone.
#include <thread>

#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/static_slot.h"
#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using tensor::Tensor;
using transfer::DynamicReceiver;
using transfer::DynamicSender;
using transfer::StaticReceiver;
using transfer::StaticSender;

Spec so_many_bytes(std::int64_t bytes) { return {ElementType::kU8, must(Shape::of({bytes}))}; }

class WithoutWaiting : public ContractTest {
 protected:
  // Starts the tensor as soon as the edge lets it, and ends when its memory is free again.
  template <class Sender>
  void drive(Sender& sender, const Tensor& tensor) {
    while (!must(sender.start(tensor))) look_until(a(), [&] { return sender.may_be_ready(); });
    while (!must(sender.finished())) look_until(a(), [&] { return sender.may_be_ready(); });
  }
  template <class Receiver>
  void expect_next(Receiver& receiver, std::uint64_t seed) {
    while (!must(receiver.ready())) look_until(b(), [&] { return receiver.may_be_ready(); });
    auto arrival = must(receiver.receive(soon()));
    EXPECT_TRUE(stamped(arrival.bytes(), seed)) << seed;
    EXPECT_EQ(code_of(arrival.release()), Code::kOk);
  }
  template <class Ready>
  static void look_until(fabric::Device& device, Ready ready) {
    EXPECT_TRUE(device.wait_until(ready, soon()));
  }
  // From memory of the edge's own choice, and from ordinary memory, by turns.
  template <class Sender, class Output>
  void drive_stamped(Sender& sender, Output output, std::int64_t bytes, std::uint64_t seed) {
    std::vector<std::byte> ordinary(static_cast<std::size_t>(bytes));
    auto tensor =
        seed % 2 == 0 ? must(output()) : must(Tensor::over(so_many_bytes(bytes), ordinary));
    stamp(tensor.bytes(), seed);
    drive(sender, tensor);
  }
};

TEST_F(WithoutWaiting, StaticTensorsArrive) {
  open();
  for (const std::int64_t bytes : {0, 64, 4096, 3 << 20}) {
    auto receiver = must(StaticReceiver::open(b(), ba(), so_many_bytes(bytes)));
    auto sender = must(StaticSender::open(a(), ab(), receiver.ticket(), so_many_bytes(bytes)));
    const auto count = static_cast<std::uint64_t>(rounds(bytes > 100'000 ? 8 : 100));
    std::thread other([&] {
      for (std::uint64_t i = 1; i <= count; ++i)
        drive_stamped(
            sender, [&] { return sender.output(); }, bytes, i);
    });
    for (std::uint64_t i = 1; i <= count && !HasFailure(); ++i) expect_next(receiver, i);
    other.join();
    EXPECT_EQ(sender.stats().tensors, count);
  }
}

TEST_F(WithoutWaiting, DynamicTensorsArrive) {
  open();
  const Spec any{ElementType::kU8, must(Shape::of({Shape::kUnknown}))};
  auto receiver = must(DynamicReceiver::open(b(), ba(), any, {{}, 4096, 64 << 10}));
  auto sender = must(DynamicSender::open(a(), ab(), receiver.ticket(), any));
  const std::array<std::int64_t, 4> sizes = {100, 30'000, 50'000, 1 << 20};
  const auto count = static_cast<std::uint64_t>(rounds(40));
  std::thread other([&] {
    for (std::uint64_t i = 1; i <= count; ++i) {
      const auto bytes = sizes[i / 2 % sizes.size()];
      drive_stamped(
          sender, [&] { return sender.output(so_many_bytes(bytes)); }, bytes, i);
    }
  });
  for (std::uint64_t i = 1; i <= count && !HasFailure(); ++i) expect_next(receiver, i);
  other.join();
  EXPECT_EQ(sender.stats().tensors, count);
}

TEST_F(WithoutWaiting, NothingStartsWhileEverySlotIsInUse) {
  open();
  auto receiver = must(StaticReceiver::open(b(), ba(), so_many_bytes(64), {.slots = 1}));
  auto sender = must(StaticSender::open(a(), ab(), receiver.ticket(), so_many_bytes(64)));
  std::vector<std::byte> memory(64);
  const auto tensor = must(Tensor::over(so_many_bytes(64), memory));
  drive(sender, tensor);
  EXPECT_FALSE(must(sender.start(tensor)));
  EXPECT_FALSE(sender.may_be_ready());
  auto arrival = must(receiver.receive(soon()));
  EXPECT_FALSE(must(sender.start(tensor)));
  must(arrival.release());
  drive(sender, tensor);
  must(must(receiver.receive(soon())).release());
}

}  // namespace
}  // namespace ferry::contract
