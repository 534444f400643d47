#include "ferry/memory/ring.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "ferry/base/clock.h"
#include "ferry/base/fd.h"

namespace ferry::memory {
namespace {

constexpr std::size_t kRingBytes = 4096;
// On a busy machine the two sides hand over a few records in each of the scheduler's time slices.
// So the producer stops after this time, however few records it has written.
constexpr auto kEnough = std::chrono::seconds(5);
constexpr auto kStuck = std::chrono::minutes(5);  // without one record

// The n-th record: its size and content follow from n. None is as large as may be: that is the end.
std::size_t size_of(std::uint64_t n, std::size_t max) { return 1 + (n * 2654435761u) % (max - 1); }
std::byte byte_of(std::uint64_t n, std::size_t i) { return std::byte((n * 131 + i * 7) & 0xff); }

// Both return what went wrong, or an empty string.
std::string produce(std::span<std::byte> memory, std::uint64_t records) {
  auto writer = RingWriter::open(memory);
  if (!writer) return writer.error().to_string();
  const auto enough = Deadline::after(kEnough);
  auto stuck = Deadline::after(kStuck);
  for (std::uint64_t n = 0;;) {
    const bool last = n == records || enough.expired();
    auto room = writer->reserve(last ? writer->max_record() : size_of(n, writer->max_record()));
    if (!room) return room.error().to_string();
    if (room->empty()) {
      if (stuck.expired()) return "the producer waited too long";
      sched_yield();
      continue;
    }
    for (std::size_t i = 0; i < room->size(); ++i) (*room)[i] = byte_of(n, i);
    writer->commit();
    if (last) return "";
    ++n;
    stuck = Deadline::after(kStuck);
  }
}

std::string consume(std::span<std::byte> memory, std::uint64_t records) {
  auto reader = RingReader::open(memory);
  if (!reader) return reader.error().to_string();
  const auto max = ring_max_record(memory.size());
  auto stuck = Deadline::after(kStuck);
  for (std::uint64_t n = 0; n <= records;) {
    auto record = reader->front();
    if (!record) return record.error().to_string();
    if (record->empty()) {
      if (stuck.expired()) return "the consumer waited too long";
      sched_yield();
      continue;
    }
    const bool last = record->size() == max;
    if (!last && record->size() != size_of(n, max)) return "wrong size";
    for (std::size_t i = 0; i < record->size(); ++i)
      if ((*record)[i] != byte_of(n, i)) return "wrong bytes";
    reader->pop();
    if (last) return reader->front()->empty() ? "" : "a record too many";
    ++n;
    stuck = Deadline::after(kStuck);
  }
  return "a record too many";
}

class Ring : public testing::Test {
 protected:
  void SetUp() override {
    memfd_ = sealed_memfd("ring-test", kRingBytes).value();
    first_ = Mapping::shared(memfd_.get(), kRingBytes).value();
    second_ = Mapping::shared(memfd_.get(), kRingBytes).value();
    writer_.emplace(RingWriter::open(first_.bytes()).value());
    reader_.emplace(RingReader::open(first_.bytes()).value());
  }
  void put(std::string_view text) {
    auto room = writer_->reserve(text.size()).value();
    ASSERT_EQ(room.size(), text.size());
    std::memcpy(room.data(), text.data(), text.size());
    writer_->commit();
  }
  std::string get() {
    auto record = reader_->front().value();
    std::string text(reinterpret_cast<const char*>(record.data()), record.size());
    if (!record.empty()) reader_->pop();
    return text;
  }
  void poke(std::size_t offset, std::uint64_t value) {
    std::memcpy(first_.data() + offset, &value, sizeof value);
  }
  void expect_broken_front() {
    auto record = reader_->front();
    ASSERT_FALSE(record);
    EXPECT_EQ(record.error().code(), Code::kDataLoss);
  }

  Fd memfd_;
  Mapping first_;
  Mapping second_;
  std::optional<RingWriter> writer_;
  std::optional<RingReader> reader_;
};

TEST_F(Ring, GivesRecordsBackInOrder) {
  EXPECT_TRUE(reader_->front()->empty());
  put("one");
  put("three");
  EXPECT_EQ(get(), "one");
  EXPECT_EQ(get(), "three");
  EXPECT_EQ(get(), "");
}

TEST_F(Ring, FrontStaysUntilPopped) {
  put("same");
  EXPECT_EQ(reader_->front()->data(), reader_->front()->data());
  reader_->pop();
  EXPECT_TRUE(reader_->front()->empty());
}

TEST_F(Ring, RefusesRecordsThatNeverFit) {
  for (std::size_t n : {std::size_t{0}, writer_->max_record() + 1, ~std::size_t{0}}) {
    auto room = writer_->reserve(n);
    ASSERT_FALSE(room);
    EXPECT_EQ(room.error().code(), Code::kInvalidArgument);
  }
}

TEST_F(Ring, TheLargestRecordFitsWhereverTheRingStands) {
  for (int shift = 0; shift < 500; ++shift) {
    put("x");
    EXPECT_EQ(get(), "x");
    std::string large(writer_->max_record(), char('a' + shift % 26));
    put(large);
    EXPECT_EQ(get(), large);
  }
}

TEST_F(Ring, IsFullUntilTheConsumerPops) {
  int records = 0;
  for (; !writer_->reserve(100)->empty(); ++records) writer_->commit();
  EXPECT_EQ(records, int((kRingBytes - kRingDataOffset) / 112));
  EXPECT_TRUE(writer_->reserve(100)->empty());
  reader_->front().value();
  reader_->pop();
  // One record of room at the start, some bytes at the end: the next wraps.
  EXPECT_EQ(writer_->reserve(100)->size(), 100u);
}

TEST_F(Ring, RefusesBadMemory) {
  EXPECT_EQ(RingWriter::open(first_.bytes().first(kRingMinBytes - 1)).error().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(RingReader::open(first_.bytes().subspan(8)).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(ring_format({}).error().code(), Code::kInvalidArgument);
}

TEST_F(Ring, FormatEmptiesUsedMemory) {
  put("old");
  ASSERT_TRUE(ring_format(first_.bytes()));
  reader_.emplace(RingReader::open(first_.bytes()).value());
  EXPECT_EQ(get(), "");
}

TEST_F(Ring, TwoThreadsOverOneMapping) {
  std::string produced;
  std::thread producer([&] { produced = produce(first_.bytes(), 20'000); });
  EXPECT_EQ(consume(first_.bytes(), 20'000), "");
  producer.join();
  EXPECT_EQ(produced, "");
}

TEST_F(Ring, TwoThreadsOverTwoMappingsOfOneMemory) {
  std::string produced;
  std::thread producer([&] { produced = produce(second_.bytes(), 20'000); });
  EXPECT_EQ(consume(first_.bytes(), 20'000), "");
  producer.join();
  EXPECT_EQ(produced, "");
}

TEST_F(Ring, AnotherProcessProduces) {
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(produce(second_.bytes(), 20'000).empty() ? 0 : 1);
  EXPECT_EQ(consume(first_.bytes(), 20'000), "");
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Ring, ABrokenTailIsANamedError) {
  for (std::uint64_t tail :
       {std::uint64_t{7}, std::uint64_t{kRingBytes * 2}, ~std::uint64_t{0} - 7}) {
    poke(kRingTailOffset, tail);
    expect_broken_front();
  }
}

TEST_F(Ring, ABrokenLengthIsANamedError) {
  put("record");
  for (std::uint64_t header :
       {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{1} << 31, std::uint64_t{kRingWrap},
        std::uint64_t{1} << 32 | 6, ~std::uint64_t{0}}) {
    poke(kRingDataOffset, header);
    expect_broken_front();
  }
  poke(kRingDataOffset, 6);
  EXPECT_EQ(get(), "record");
}

TEST_F(Ring, AWrapIntoAWrapIsANamedError) {
  while (!writer_->reserve(1000)->empty()) writer_->commit();
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(reader_->front()->empty());
    reader_->pop();
  }
  put(std::string(1000, 'w'));  // starts over at the beginning
  poke(kRingDataOffset, kRingWrap);
  expect_broken_front();
}

TEST_F(Ring, TheProducerDistrustsTheHead) {
  while (!writer_->reserve(100)->empty()) writer_->commit();
  std::uint64_t tail = 0;
  std::memcpy(&tail, first_.data() + kRingTailOffset, sizeof tail);
  for (std::uint64_t head : {tail + 8, std::uint64_t{3}, ~std::uint64_t{0}}) {
    poke(kRingHeadOffset, head);
    auto room = writer_->reserve(100);
    ASSERT_FALSE(room);
    EXPECT_EQ(room.error().code(), Code::kDataLoss);
  }
}

TEST_F(Ring, TheHeadMayNotGoBack) {
  for (int i = 0; i < 100; ++i) {
    put("0123456789");
    EXPECT_EQ(get(), "0123456789");
  }
  while (!writer_->reserve(100)->empty()) writer_->commit();
  poke(kRingHeadOffset, 0);
  EXPECT_EQ(writer_->reserve(100).error().code(), Code::kDataLoss);
}

TEST_F(Ring, MisuseEndsTheProcess) {
  EXPECT_DEATH(writer_->commit(), "not reserved");
  EXPECT_DEATH(reader_->pop(), "not looked at");
}

}  // namespace
}  // namespace ferry::memory
