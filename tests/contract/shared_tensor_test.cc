#include "ferry/transfer/shared_tensor.h"

#include <atomic>
#include <random>
#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using transfer::Arrival;
using transfer::SharedReader;
using transfer::SharedWriter;
using transfer::Ticket;

const Spec kWeights{ElementType::kF32, must(Shape::of({50, 50}))};

// a writes, readers at b.
class SharedVersions : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    open();
    if (!ab().capabilities().maps_peer) {
      auto writer = must(SharedWriter::open(a(), kWeights));
      EXPECT_EQ(code_of(writer.admit(ab())), Code::kUnimplemented);
      GTEST_SKIP() << "this path maps nothing, and says so";
    }
  }
  SharedReader reader_at(SharedWriter& writer, Channel& from_writer, Channel& from_reader,
                         bool spins = false) {
    auto ticket = must(writer.admit(from_writer, spins));
    return must(
        SharedReader::open(b(), from_reader, must(Ticket::from_wire(ticket.to_wire())), kWeights));
  }
  static std::uint64_t publish_stamped(SharedWriter& writer) {
    static std::uint64_t count = 0;
    auto out = must(writer.output(soon()));
    stamp(out.bytes(), ++count);
    auto sequence = must(writer.publish());
    offset = count - sequence;
    return sequence;
  }
  static ::testing::AssertionResult whole(const Arrival& arrival) {
    return stamped(arrival.bytes(), arrival.sequence() + offset);
  }
  static inline std::atomic<std::uint64_t> offset{0};
};

TEST_F(SharedVersions, AReaderSeesTheNewestInPlace) {
  auto writer = must(SharedWriter::open(a(), kWeights));
  auto reader = reader_at(writer, ab(), ba());
  EXPECT_FALSE(reader.ready(0));
  EXPECT_EQ(code_of(reader.read(1, in(10ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(writer.publish()), Code::kFailedPrecondition);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    ASSERT_EQ(publish_stamped(writer), i);
    EXPECT_TRUE(reader.ready(i));
    auto arrival = must(reader.read(i, soon()));
    EXPECT_EQ(arrival.sequence(), i);
    EXPECT_TRUE(whole(arrival));
    EXPECT_EQ(code_of(arrival.release()), Code::kOk);
  }
  EXPECT_EQ(reader.stats().in_place, 10U);
  EXPECT_EQ(code_of(reader.read(11, in(10ms))), Code::kDeadlineExceeded);
}

TEST_F(SharedVersions, AVersionInUseIsNeverWritten) {
  auto writer = must(SharedWriter::open(a(), kWeights));
  auto more = connect_more(a(), b());
  auto slow = reader_at(writer, ab(), ba());
  auto quick = reader_at(writer, more.ab, more.ba);
  publish_stamped(writer);
  auto held = must(slow.read(1, soon()));
  for (std::uint64_t i = 2; i <= 50; ++i) {
    ASSERT_EQ(publish_stamped(writer), i);  // the writer never waits
    auto fresh = must(quick.read(i, soon()));
    EXPECT_TRUE(whole(fresh));
    EXPECT_TRUE(whole(held)) << i;
  }
  EXPECT_EQ(quick.stats().copies, 49U);  // one more in place would leave none to write
  auto second = must(slow.read(50, soon()));
  EXPECT_EQ(slow.stats().copies, 1U);  // it has one in use already
  EXPECT_TRUE(whole(second));
  must(held.release());
  publish_stamped(writer);
  auto fresh = must(quick.read(51, soon()));
  EXPECT_EQ(quick.stats().in_place, 1U);
}

TEST_F(SharedVersions, ReadersOfOneVersionShareIt) {
  auto writer = must(SharedWriter::open(a(), kWeights));
  auto more = connect_more(a(), b());
  auto one = reader_at(writer, ab(), ba());
  auto two = reader_at(writer, more.ab, more.ba);
  publish_stamped(writer);
  auto first = must(one.read(1, soon()));
  auto second = must(two.read(1, soon()));
  EXPECT_EQ(one.stats().in_place + two.stats().in_place, 2U);
  publish_stamped(writer);
  publish_stamped(writer);
  EXPECT_TRUE(whole(first));
  EXPECT_TRUE(whole(second));
}

TEST_F(SharedVersions, RefusesTicketsThatDoNotFit) {
  auto writer = must(SharedWriter::open(a(), kWeights, {.readers = 1}));
  auto ticket = must(writer.admit(ab()));
  Spec other{ElementType::kI32, kWeights.shape};
  EXPECT_EQ(code_of(SharedReader::open(b(), ba(), ticket, other)), Code::kInvalidArgument);
  auto stranger = ticket;
  stranger.owner = b().id();
  EXPECT_EQ(code_of(SharedReader::open(b(), ba(), stranger, kWeights)), Code::kFailedPrecondition);
  auto elsewhere = ticket;
  elsewhere.seat = 1;
  EXPECT_EQ(code_of(SharedReader::open(b(), ba(), elsewhere, kWeights)), Code::kOutOfRange);
  EXPECT_EQ(code_of(writer.admit(ab())), Code::kResourceExhausted);
  EXPECT_EQ(code_of(SharedWriter::open(a(), kWeights, {.versions = 2})), Code::kInvalidArgument);
}

TEST_F(SharedVersions, ASeatIsFreeAgainWhenItsReaderLeaves) {
  auto writer = must(SharedWriter::open(a(), kWeights, {.readers = 1}));
  for (std::uint64_t i = 1; i <= 5; ++i) {
    auto reader = reader_at(writer, ab(), ba());
    publish_stamped(writer);
    EXPECT_TRUE(whole(must(reader.read(i, soon()))));
  }
}

// The writer has given up a reader that lives on: its channel is closed at the writer's end. What
// that reader does with its seat is of no account to the one that has the seat now.
TEST_F(SharedVersions, AReaderThatWasGivenUpLetsGoOfNothingThatIsAnothers) {
  auto writer = must(SharedWriter::open(a(), kWeights, {.readers = 1}));
  auto more = connect_more(a(), b());
  publish_stamped(writer);
  std::optional<SharedReader> late(reader_at(writer, more.ab, more.ba));
  auto lost = must(late->read(1, soon()));
  more.ab = {};
  publish_stamped(writer);
  auto reader = reader_at(writer, ab(), ba());
  auto held = must(reader.read(2, soon()));
  EXPECT_EQ(reader.stats().in_place, 1U);
  EXPECT_EQ(code_of(lost.release()), Code::kUnavailable);
  EXPECT_EQ(code_of(late->read(1, soon())), Code::kUnavailable);
  late.reset();
  for (int i = 0; i < 10; ++i) publish_stamped(writer);
  EXPECT_TRUE(whole(held));
  EXPECT_EQ(code_of(held.release()), Code::kOk);
}

TEST_F(SharedVersions, ATicketOfAReaderThatWasGivenUpIsRefused) {
  auto writer = must(SharedWriter::open(a(), kWeights, {.readers = 1}));
  auto more = connect_more(a(), b());
  auto late = must(writer.admit(more.ab));
  more.ab = {};
  auto reader = reader_at(writer, ab(), ba());
  EXPECT_FALSE(SharedReader::open(b(), more.ba, late, kWeights));
  publish_stamped(writer);
  EXPECT_TRUE(whole(must(reader.read(1, soon()))));
}

// Given up while it copies: what it says it has read is whole all the same.
TEST_F(SharedVersions, ACopyThatWasOverwrittenIsNotHandedOut) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the copy is overwritten while it is made: a race by design, which the thread "
                  "sanitizer names";
#endif
  const Spec large{ElementType::kU8, must(Shape::of({4 << 20}))};
  for (int i = 0; i < rounds(20) && !HasFailure(); ++i) {
    auto writer = must(SharedWriter::open(a(), large));
    auto more = connect_more(a(), b());
    auto reader = must(SharedReader::open(b(), more.ba, must(writer.admit(more.ab)), large));
    auto publish = [&writer](std::uint64_t number) {
      stamp(must(writer.output(soon())).bytes(), number);
      EXPECT_EQ(must(writer.publish()), number);
    };
    publish(1);
    auto held = must(reader.read(1, soon()));  // the others are copied
    publish(2);
    std::atomic<bool> begun{false};
    std::thread other([&] {
      Result<Arrival> copied = Arrival();
      for (auto deadline = soon(); copied && !deadline.expired() && !HasFailure();) {
        copied = reader.read(2, soon());
        if (copied) {
          EXPECT_TRUE(stamped(copied->bytes(), copied->sequence()));
        }
        begun = true;
      }
      EXPECT_EQ(code_of(copied), Code::kUnavailable);
    });
    while (!begun) std::this_thread::yield();
    more.ab = {};
    for (std::uint64_t number = 3; number < 8; ++number) publish(number);
    other.join();
    EXPECT_EQ(code_of(held.release()), Code::kUnavailable);
  }
}

class SharedModes : public SharedVersions, public ::testing::WithParamInterface<WaitMode> {};

// Every version that a reader gets is whole and newer than the last, however the two interleave; a
// reader that waits for the last version is woken for it.
TEST_P(SharedModes, NothingIsTornOrLostUnderWay) {
  auto mode = GetParam();
  auto writer = must(SharedWriter::open(a(), kWeights));
  auto more = connect_more(a(), b());
  auto count = static_cast<std::uint64_t>(rounds(2000));
  publish_stamped(writer);
  auto read_all = [&, mode](SharedReader& reader, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Arrival> kept;
    for (std::uint64_t last = 0; last < count;) {
      auto arrival = must(reader.read(last + 1, soon(), mode));
      EXPECT_GT(arrival.sequence(), last);
      EXPECT_TRUE(whole(arrival));
      last = arrival.sequence();
      kept.push_back(std::move(arrival));
      if (random() % 3 == 0) {
        for (const auto& one : kept) EXPECT_TRUE(whole(one));
        kept.clear();
      }
      if (HasFailure()) return;
    }
  };
  auto one = reader_at(writer, ab(), ba(), mode == WaitMode::kSpin);
  auto two = reader_at(writer, more.ab, more.ba, mode == WaitMode::kSpin);
  std::thread first([&] { read_all(one, 1); });
  std::thread second([&] { read_all(two, 2); });
  for (std::uint64_t i = 2; i <= count; ++i) {
    publish_stamped(writer);
    if (i % 64 == 0) std::this_thread::yield();
  }
  first.join();
  second.join();
}
INSTANTIATE_TEST_SUITE_P(All, SharedModes,
                         ::testing::Values(WaitMode::kSpin, WaitMode::kSleep, WaitMode::kAdaptive),
                         [](const auto& test) {
                           return test.param == WaitMode::kSpin    ? "Spinning"
                                  : test.param == WaitMode::kSleep ? "Sleeping"
                                                                   : "Adaptive";
                         });

}  // namespace
}  // namespace ferry::contract
